"""Whole processes on a real broker: kquota commands against Java programs that do the same with Kafka's AdminClient."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench import documents, harness
from tests.servers import jars, tools
from tests.servers.fault_proxy import in_front_of
from tests.servers.kafka import KafkaCluster

VERSION = "4.3.1"
HEAP_MEGABYTES = 1024
JAVA = Path(__file__).parent / "java"
SNAKEYAML = "2.4"
KQUOTA = Path(sys.executable).with_name("kquota")

PROJECT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata:
  name: bench
spec:
  bootstrapServers: {bootstrap}
"""

SNAKEYAML_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>io.kafka-quotas.bench</groupId><artifactId>snakeyaml</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.yaml</groupId><artifactId>snakeyaml</artifactId><version>{SNAKEYAML}</version></dependency>
  </dependencies>
</project>
"""


@dataclass(slots=True)
class Workspace:
    """A project with 10,000 documents, and a counter that shifts every value."""

    folder: Path
    bootstrap: str
    turn: int = 0

    def project(self, text: str = PROJECT) -> None:
        (self.folder / "kquota.yaml").write_text(
            text.format(bootstrap=self.bootstrap), encoding="utf-8"
        )

    def shift(self) -> None:
        """Write new values to the manifests."""
        self.turn += 1
        documents.write_manifests(self.folder / "quotas", offset=self.turn)

    def kquota(self, *words: str) -> list[str]:
        return [str(KQUOTA), *words]


def java_command(program: str, *arguments: str) -> list[str]:
    """A Java peer as users run it: default JVM settings, no archive, no tuning against it."""
    source = tools.JavaSource(path=JAVA / f"{program}.java", class_name=program)
    classpath = f"{jars.resolve(VERSION).classpath}:{snakeyaml()}"
    compiled = compile_peer(source, classpath)
    return [
        jars.java(),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        f"{classpath}:{compiled}",
        program,
        *arguments,
    ]


def compile_peer(source: tools.JavaSource, classpath: str) -> Path:
    import subprocess

    text = source.path.read_text(encoding="utf-8")

    def fill(folder: Path) -> None:
        subprocess.run(
            [
                jars.javac(),
                "--release",
                "17",
                "-cp",
                classpath,
                "-d",
                str(folder),
                str(source.path),
            ],
            check=True,
        )

    return jars.cached(
        f"bench-{source.class_name}-{jars.digest(text, classpath, jars.java_identity())}", fill
    )


def snakeyaml() -> str:
    """SnakeYAML's jar, from Maven."""
    import subprocess

    def fill(folder: Path) -> None:
        (folder / "pom.xml").write_text(SNAKEYAML_POM, encoding="utf-8")
        command = [
            jars.program("mvn", "Maven"),
            "-B",
            "-q",
            "-f",
            str(folder / "pom.xml"),
            f"{jars.DEPENDENCY_PLUGIN}:copy-dependencies",
            f"-DoutputDirectory={folder}",
        ]
        subprocess.run(command, check=True)

    return str(jars.cached(f"snakeyaml-{SNAKEYAML}", fill) / f"snakeyaml-{SNAKEYAML}.jar")


@contextmanager
def workspace() -> Iterator[tuple[Workspace, KafkaCluster]]:
    folder = Path(tempfile.mkdtemp(prefix="kquota-bench-"))
    try:
        with KafkaCluster(VERSION, heap_megabytes=HEAP_MEGABYTES) as cluster:
            new_workspace = Workspace(folder=folder, bootstrap=cluster.bootstrap())
            new_workspace.project()
            new_workspace.shift()
            yield new_workspace, cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def applies(space: Workspace) -> Mapping[str, Callable[[], Mapping[str, float]]]:
    """Apply from YAML and a saved plan, against a Java program that reads the same directory with SnakeYAML."""

    def plan() -> None:
        space.shift()
        run(space, "plan", "--out", "plan.json", "--validate", "none")

    options = ("--yes", "--validate", "broker")
    return {
        "yaml": harness.wall_of(
            space.kquota("apply", *options), before=space.shift, cwd=space.folder
        ),
        "saved": harness.wall_of(
            space.kquota("apply", "plan.json", *options), before=plan, cwd=space.folder
        ),
        "java": harness.wall_of(
            java_command("ReadManifests", "apply", space.bootstrap, str(space.folder / "quotas")),
            before=space.shift,
            expect="differing 10000",
        ),
    }


def no_op_plan(space: Workspace) -> Mapping[str, Callable[[], Mapping[str, float]]]:
    """A plan without changes, against the same in Java."""
    run(space, "apply", "--yes")
    return {
        "ours": harness.wall_of(space.kquota("plan", "--detailed-exitcode"), cwd=space.folder),
        "java": harness.wall_of(
            java_command("ReadManifests", "plan", space.bootstrap, str(space.folder / "quotas")),
            expect="differing 0",
        ),
    }


def run(space: Workspace, *words: str) -> None:
    _ = harness.wall_of(space.kquota(*words), cwd=space.folder)()


def requests() -> dict[str, int]:
    """The requests of one apply of 10,000 entities with three keys, counted by a proxy."""
    folder = Path(tempfile.mkdtemp(prefix="kquota-bench-"))
    try:
        with (
            KafkaCluster(VERSION, heap_megabytes=HEAP_MEGABYTES) as cluster,
            in_front_of(cluster, "PLAINTEXT") as proxies,
        ):
            (proxy,) = proxies.values()
            space = Workspace(folder=folder, bootstrap=f"127.0.0.1:{proxy.port}")
            space.project()
            space.shift()
            run(space, "apply", "--yes", "--validate", "broker")
            describes = [request for request in proxy.requests if request.api_key == 48]
            alters = [request for request in proxy.requests if request.api_key == 49]
            return {
                "full describes": sum(is_full(request.frame) for request in describes),
                "polls": sum(not is_full(request.frame) for request in describes),
                "validate-only": sum(not request.writes for request in alters),
                "alters": sum(request.writes for request in alters),
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_full(frame: bytes) -> bool:
    """Whether a DescribeClientQuotas v1 frame has no component: its body is count+1 = 1, strict = 0, no tags."""
    return frame.endswith(b"\x01\x00\x00")
