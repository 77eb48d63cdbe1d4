"""The JVM of a classic session: finds Java, starts it with known noise filtered from its output, and ends it."""

import contextlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # has no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from reconciler.base.output_text import output_text
from reconciler.errors import ConfigError, SparkError

JAVA: Final = 17
"""The oldest Java version that Spark 4 supports."""

LOST: Final[type[Exception]] = Py4JError
"""The error of calls to a JVM that has ended."""

END_SECONDS: Final = 30
_HINT: Final = f"install a Java {JAVA} runtime and set JAVA_HOME, or name a server with --remote"
_CHATTER: Final = (b"WARNING: Using incubator modules:",)
"""Java prints this because of an option that Spark sets itself; no option disables it."""


def check_java() -> None:
    """Check the Java that Spark would start.

    Raises:
        ConfigError: There is no Java, it cannot be run, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        raise ConfigError("Spark needs Java, and there is none on the PATH", key="java", hint=_HINT)
    try:
        process = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(
            f"Spark needs Java, and {program} cannot be run: {error}", key="java", hint=_HINT
        ) from None
    level = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", process, re.MULTILINE)
    if level is None or int(level[1]) < JAVA:
        raise ConfigError(
            f"Spark needs Java {JAVA}, and {program} is {f'Java {level[1]}' if level else 'none'}",
            key="java",
            hint=_HINT,
        )


def start(settings: Mapping[str, str]) -> None:
    """Start the JVM for the next classic session, unless one runs.

    Its stdout and stderr both go to our stderr: our stdout contains results that programs read.

    Raises:
        SparkError: The JVM ended before it was ready.
    """
    if SparkContext._gateway is not None:  # noqa: SLF001 - PySpark has no public API for it
        return
    conf = SparkConf()
    for key, value in settings.items():
        conf.set(key, value)
    reading, writing = os.pipe()
    threading.Thread(target=_passed_on, args=(reading,), name="spark-jvm", daemon=True).start()
    try:
        gateway = launch_gateway(conf, {"stdout": writing, "stderr": writing})  # type: ignore[no-untyped-call]  # has no types
    except PySparkRuntimeError as error:
        raise SparkError(
            "the JVM of Spark ended before it was ready", hint="see its output above"
        ) from error
    finally:
        os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001


def _passed_on(pipe: int) -> None:
    with os.fdopen(pipe, "rb") as lines:
        for line in lines:
            if not line.startswith(_CHATTER):
                text = output_text(line.decode("utf-8", "replace"))
                os.write(2, text.encode("utf-8", "replace"))


def current() -> Any:  # noqa: ANN401 - a gateway of py4j, which has no types
    """Return the py4j gateway to the JVM of this process; ``None`` if there is none."""
    return SparkContext._gateway  # noqa: SLF001


def is_lost() -> bool:
    """Whether the JVM that this process started has ended by itself."""
    process = getattr(current(), "proc", None)
    if process is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)  # its sockets close before the process ends
    return process.returncode is not None


def end() -> None:
    """End the JVM if this process started it; a JVM of spark-submit keeps running.

    PySpark would leave it running until Python exits, and not wait for its end.
    """
    gateway = current()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    with contextlib.suppress(LOST, OSError):
        gateway.shutdown()
    SparkContext._gateway = None  # noqa: SLF001 - so that another JVM can be started
    SparkContext._jvm = None  # noqa: SLF001
    process.stdin.close()  # closing stdin ends the JVM
    try:
        process.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
