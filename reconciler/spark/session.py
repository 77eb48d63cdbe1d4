"""Sessions: local and tuned, on a cluster as that is set up, or through Spark Connect; and how they end.

Settings are made for ``local`` masters only. Under spark-submit, on a cluster and behind a Connect server the
operator of that place decides, and nothing is set here.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from reconciler.errors import ConfigError

JAVA: Final = 17
"""The oldest Java that Spark 4 runs on."""

_NAME: Final = "kquota"
_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\d+)?\])?")
_LOOPBACK: Final = "127.0.0.1"
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOG4J: Final = Path(__file__).with_name("log4j2.properties")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where jobs run.

    Attributes:
        master: A Spark master (``local[2]``, ``spark://host:7077``, ``k8s://…``, ``yarn``); ``None`` = what spark-submit
            or ``SPARK_REMOTE`` says, else all cores of this machine.
        remote: ``sc://host:port`` of a Spark Connect server; then there is no master.
        memory: Heap of the JVM that is started here, such as ``2g``; ``None`` = Spark's default of 1g.
        archive: Whether a local JVM starts from a class-data archive, which is made at the first start.
        brief: For runs of seconds: the JVM compiles less, which starts faster and computes slower. Local only.
    """

    master: str | None = None
    remote: str | None = None
    memory: str | None = None
    archive: bool = True
    brief: bool = False

    def __post_init__(self) -> None:
        if self.master and self.remote:
            raise ConfigError(
                "a session has a master or a remote address, not both",
                key="remote",
                hint="--remote names a Spark Connect server, which has its own master",
            )
        if self.remote and not self.remote.startswith("sc://"):
            raise ConfigError(
                f"{self.remote} is not the address of a Spark Connect server",
                key="remote",
                hint="such an address begins with sc://, like sc://spark.example.com:15002",
            )
        if self.memory and not re.fullmatch(r"[1-9]\d*[kmgt]b?", self.memory, re.IGNORECASE):
            raise ConfigError(
                f"{self.memory} is not an amount of memory", key="memory", hint="write 900m or 4g"
            )
        if self.remote and self.memory:
            raise ConfigError(
                "the memory of a Connect server is set where it is started", key="memory"
            )


def local_cores(master: str) -> int | None:
    """How many threads a local master uses; ``None`` if it is none of this process (``local-cluster`` is one of many)."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match["cores"] or "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)


def local_settings(cores: int) -> dict[str, str]:
    """What a session of one machine is given; nothing else is.

    Two hundred partitions, Spark's default, would be two hundred tasks of milliseconds each.
    """
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        "spark.default.parallelism": str(max(2, cores)),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
    }


def java_options(*, brief: bool) -> str:
    """Options of a local JVM, without its archive. Users see no log lines below errors: Spark warns of harmless things."""
    quiet = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}"
    return f"{_QUICK} {quiet}" if brief else quiet


def java() -> str:
    """The version of Java that Spark would start, as it tells it.

    Raises:
        ConfigError: There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install a Java {JAVA} runtime and set JAVA_HOME, or name a server with --remote"
    if program is None:
        raise ConfigError("Spark needs Java, and there is none on the PATH", key="java", hint=hint)
    try:
        told = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(
            f"Spark needs Java, and {program} cannot be run: {error}", key="java", hint=hint
        ) from None
    found = re.search(r"^ *java\.vm\.version = (?P<version>(?:1\.)?(\d+).*)$", told, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", told, re.MULTILINE)
    if version is None or int(version[1]) < JAVA:
        raise ConfigError(
            f"Spark needs Java {JAVA}, and {program} is {version[1] if version else 'unknown'}",
            key="java",
            hint=hint,
        )
    return found["version"] if found else version[1]


def submitted() -> bool:
    """Whether spark-submit started this process, and with it the JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def started(settings: Settings) -> SparkSession:
    """A session. Only one kind per process: PySpark cannot hold a classic and a Connect session at once.

    Raises:
        ConfigError: Java is missing or too old, or no session can be had there.
    """
    remote = settings.remote or (None if settings.master else os.environ.get("SPARK_REMOTE"))
    if remote and not submitted():
        return _connected(remote)
    if submitted():
        return SparkSession.builder.getOrCreate()
    # Else workers may start another interpreter than this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = settings.master or "local[*]"
    builder = SparkSession.builder.appName(_NAME).master(master)
    if settings.memory:
        # Read when the JVM starts; later it would do nothing.
        builder = builder.config("spark.driver.memory", settings.memory)
    java()
    cores = local_cores(master)
    if cores is not None:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        for key, value in local_settings(cores).items():
            builder = builder.config(key, value)
        builder = builder.config(
            "spark.driver.extraJavaOptions", java_options(brief=settings.brief)
        )
    return builder.getOrCreate()


def _connected(remote: str) -> SparkSession:
    # ``create`` and not ``getOrCreate``: a session that another part of the program uses keeps its settings.
    return SparkSession.builder.remote(remote).create()


def stopped(spark: SparkSession) -> None:
    """End a session, and with it the JVM that was started for it; one of spark-submit or of a server lives on.

    PySpark leaves its JVM running until Python ends, which then does not wait for it. Here it is gone afterwards.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.stop()
        return
    from pyspark import SparkContext  # noqa: PLC0415 - a Connect client has no such class

    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no public way to end its JVM
    spark.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    SparkContext._gateway = None  # noqa: SLF001 - so that another session can be started
    SparkContext._jvm = None  # noqa: SLF001
    # The JVM ends when its input does.
    process.stdin.close()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[SparkSession]:
    """A session for as long as the block lasts; Ctrl-C ends its jobs and the JVM, too."""
    spark = started(settings)
    try:
        yield spark
    finally:
        stopped(spark)
