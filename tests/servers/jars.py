"""Kafka's jars: Maven artifacts, resolved once into a cache outside of the source tree.

The cache folder of a version has a digest of its pom in its name, so that a changed pin uses a new folder.
It is filled under a temporary name and renamed, under a file lock, so that a failed download or a second
test run at the same time leaves no incomplete folder.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.processes import HANG_SECONDS

VERSIONS = ("3.4.1", "3.9.1", "4.0.1", "4.3.1", "4.4.0")
NEWEST = VERSIONS[-1]
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
SLF4J = "1.7.36"

# 4.4.0's pom depends on kafka-tools-api, which was not published at that version.
EXCLUDED = {"4.4.0": ("kafka-tools-api",)}

EXCLUSION = """
      <exclusion><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId></exclusion>"""
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>io.kafka-quotas.tests</groupId><artifactId>kafka-{version}</artifactId>
  <version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{version}</version>
      <exclusions>{exclusions}
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>{slf4j}</version>
    </dependency>
  </dependencies>
</project>
"""


class ServersUnavailable(Exception):
    """Real servers cannot be started here; the message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """The jars of one Kafka version."""

    version: str
    folder: Path

    @property
    def classpath(self) -> str:
        """All jars in a fixed order, which a class-data archive requires."""
        return os.pathsep.join(str(jar) for jar in sorted(self.folder.glob("*.jar")))


def pom(version: str) -> str:
    """Return the pom that pins one of `VERSIONS`."""
    if version not in VERSIONS:
        raise ValueError(f"Kafka {version} is not one of {', '.join(VERSIONS)}")
    exclusions = "".join(
        EXCLUSION.format(artifact=artifact) for artifact in EXCLUDED.get(version, ())
    )
    return POM.format(version=version, exclusions=exclusions, slf4j=SLF4J)


def cache_root() -> Path:
    """Return `KQUOTA_CACHE`, else `kafka-quota-reconciler` in the user's cache folder."""
    folder = os.environ.get("KQUOTA_CACHE")
    if folder:
        return Path(folder)
    shared = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(shared) / "kafka-quota-reconciler"


def digest(*texts: str) -> str:
    """Return a short digest of texts, for names of cache folders."""
    hasher = hashlib.sha256()
    for text in texts:
        hasher.update(len(text).to_bytes(8, "big") + text.encode())
    return hasher.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache; on first use, `fill` fills an empty folder that is then renamed to it."""
    target = cache_root() / name
    if target.is_dir():
        return target
    with locked(target.with_name(target.name + ".lock")):
        if target.is_dir():
            return target
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            fill(draft)
            draft.chmod(0o755)
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return target


def program(name: str, package: str) -> str:
    """Return the path of a program.

    Raises:
        ServersUnavailable: It is not installed; the message lists the `package` to install.
    """
    home = os.environ.get("JAVA_HOME") if name in {"java", "javac"} else None
    path = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    path = path or shutil.which(name)
    if path is None:
        raise ServersUnavailable(f"`{name}` was not found: install {package}.")
    return path


def java() -> str:
    return program("java", "a Java runtime, version 17 or newer (for example openjdk-17-jdk)")


def javac() -> str:
    return program("javac", "a Java development kit, 17 or newer (for example openjdk-17-jdk)")


@functools.cache
def java_identity() -> str:
    """Return the output of `java -version`, part of the names of cache folders that depend on the JVM.

    Raises:
        ServersUnavailable: There is no Java, it does not run, or it is older than 17.
    """
    answer = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False)
    text = answer.stderr.strip()
    number = text.partition('"')[2].partition('"')[0]
    major = number.partition(".")[0].partition("-")[0]
    if answer.returncode != 0 or not major.isdigit() or int(major) < 17:
        raise ServersUnavailable(
            f"`java -version` says {text.splitlines()[:1]}: install Java 17 or newer, "
            "or point JAVA_HOME at one."
        )
    return text


def resolve(version: str) -> Jars:
    """Return the jars of `version`, downloaded on first use (about 45 MB, some seconds).

    Raises:
        ServersUnavailable: Java or Maven is missing, or Maven could not download.
    """
    text = pom(version)
    java_identity()
    name = f"kafka-{version}-{digest(text, DEPENDENCY_PLUGIN)}"
    return Jars(version=version, folder=cached(name, lambda folder: _download(text, folder)))


def _download(text: str, folder: Path) -> None:
    (folder / "pom.xml").write_text(text, encoding="utf-8")
    maven = program("mvn", "Maven 3.8 or newer (for example the package `maven`)")
    command = [
        maven,
        "-B",
        "-q",
        "-f",
        str(folder / "pom.xml"),
        f"{DEPENDENCY_PLUGIN}:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={folder}",
    ]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
        )
    except subprocess.TimeoutExpired as late:
        raise ServersUnavailable(
            f"Maven did not finish within {HANG_SECONDS:g} s: check that it can reach a repository."
        ) from late
    if answer.returncode != 0 or not any(folder.glob("kafka-clients-*.jar")):
        reason = next((line for line in answer.stdout.splitlines() if "ERROR" in line), "no reason")
        raise ServersUnavailable(
            f"Maven could not download Kafka's jars: check that it can reach a repository. {reason}"
        )
