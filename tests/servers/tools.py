"""Java from Python: Kafka's command-line tools, and small Java programs that use its jars.

A program is one `.java` file, compiled once per Kafka version and source text (`jars.cached`). It runs once
with arguments, or as a `Conversation` with a line of response per line of request.
"""

import json
import subprocess
import threading
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.servers import jars
from tests.servers.node import QUICK_JVM, shared_classes
from tests.servers.processes import HANG_SECONDS, Child, ScratchFolder

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"

# From 4.4 on, ConfigCommand is in the tools module, whose jars are incomplete on Maven Central.
CONFIGS_OF = {"4.4.0": "4.3.1"}


class JavaFailed(Exception):
    """javac refused a program, or a running one ended or timed out; the message has Java's output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaSource:
    """A Java file and the full name of its main or callback class."""

    path: Path
    class_name: str


# A `client.quota.callback.class` that stores quotas and enforces nothing.
CALLBACK = JavaSource(
    path=Path(__file__).parent / "callbacks" / "EqualShares.java", class_name="EqualShares"
)


def compile_jar(version: str, source: JavaSource) -> Path:
    """Return a cached jar with the classes of `source`, compiled against the jars of `version`.

    Class-data archives require jars, not folders, on the class path.
    """
    text = source.path.read_text(encoding="utf-8")
    product = jars.resolve(version)
    identity = (text, product.folder.name, jars.java_identity())
    name = f"{source.path.stem.lower()}-{version}-{jars.digest(*identity)}"

    def fill(folder: Path) -> None:
        with ScratchFolder.make("javac-") as classes:
            command = [
                jars.javac(),
                "--release",
                "17",
                "-nowarn",
                "-proc:none",
                "-cp",
                product.classpath,
                "-d",
                str(classes),
                str(source.path),
            ]
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            if answer.returncode != 0:
                raise JavaFailed(f"javac refuses {source.path.name} on {version}:\n{answer.stderr}")
            with zipfile.ZipFile(folder / "program.jar", "w") as packed:
                for path in sorted(classes.rglob("*.class")):
                    packed.write(path, path.relative_to(classes))

    return jars.cached(name, fill) / "program.jar"


def command(version: str, source: JavaSource, *arguments: str) -> list[str]:
    """Return the command line that runs `source`."""
    classpath = f"{jars.resolve(version).classpath}:{compile_jar(version, source)}"
    jvm = (*QUICK_JVM, *shared_classes(version), QUIET)
    return [jars.java(), *jvm, "-cp", classpath, source.class_name, *arguments]


def kafka_configs(
    version: str, *arguments: str, flags: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    """Run `kafka-configs` of a version to its end, with any exit code.

    `flags` are JVM flags: OAUTHBEARER clients of 4.x need `Issuer.jvm_flags()`.
    """
    version = CONFIGS_OF.get(version, version)
    jvm = (*QUICK_JVM, *shared_classes(version), *flags, QUIET)
    classpath = jars.resolve(version).classpath
    tool = "kafka.admin.ConfigCommand"
    return _run([jars.java(), *jvm, "-cp", classpath, tool, *arguments], "")


def _run(words: Sequence[str], stdin: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, input=stdin, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )


class Conversation:
    """A Java program that keeps running: one JSON line in, one JSON line out. Thread-safe."""

    def __init__(self, version: str, source: JavaSource, *arguments: str) -> None:
        """Start the program; the first request waits for the JVM."""
        self._scratch = ScratchFolder.make("conversation-")
        self._lock = threading.Lock()
        self._child = Child(
            command(version, source, *arguments), log=self._scratch.path / "log", pipes=True
        )

    def ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        """Send a request; return the program's response.

        Raises:
            JavaFailed: The program ended, did not respond within `HANG_SECONDS`, or responded with `{"failure":
                ...}`.
        """
        with self._lock:
            line = self._exchange(json.dumps(question).encode() + b"\n")
        if not line:
            raise JavaFailed(f"the Java program ended:\n{self._child.log_text()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "failure" in answer:
            raise JavaFailed(str(answer["failure"]))
        return answer

    def _exchange(self, line: bytes) -> bytes:
        process = self._child.process
        if process.stdin is None or process.stdout is None:
            raise AssertionError("a conversation is started with pipes")
        alarm = threading.Timer(HANG_SECONDS, process.kill)
        alarm.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return b""
        finally:
            alarm.cancel()
            alarm.join()

    def close(self) -> None:
        """Stop the program."""
        self._child.kill()
        self._scratch.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
