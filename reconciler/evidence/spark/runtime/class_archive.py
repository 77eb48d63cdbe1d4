"""The class-data archive of a local JVM: thousands of Spark classes, loaded once and memory-mapped at later starts.

Measured for a process with one tiny aggregation: 0.57 of the time of a default start (docs/benchmarks.md, T1). An archive
fits one SPARK_HOME, its jars and one JVM, which determine its name in the cache; the JVM ignores an archive that does
not fit and starts without it.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.find_spark_home import _find_spark_home

MAKING_SECONDS: Final = 300

WARM: Final = Path(__file__).with_name("warmup.py")
USE: Final = "-XX:SharedArchiveFile={path} -Xlog:disable"
"""Without ``-Xlog:disable`` the JVM reports an archive that does not fit on stdout, where results are printed."""

_MAKE: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={path}"
    " -Xlog:cds=off -Xlog:cds+dynamic=off -Dlog4j2.configurationFile={log4j}"
)
_MEMORY: Final = "800m"


def spark_home() -> Path:
    """Return the folder of Spark: ``SPARK_HOME``, else that of the PySpark package."""
    return Path(_find_spark_home())


def folder() -> Path:
    """Return the folder of the archives: ``kafka-quota-reconciler/spark`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "kafka-quota-reconciler" / "spark"


def path_of(home: Path, java_version: str) -> Path:
    """Return the path of the archive for a Spark and a JVM; the file may not exist.

    The times of the jars are part of its name, because the JVM compares them too.
    """
    lines = [str(home), java_version]
    for jar in sorted((home / "jars").glob("*.jar")):
        jar_status = jar.stat()
        lines.append(f"{jar.name} {jar_status.st_size} {jar_status.st_mtime_ns}")
    name = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
    return folder() / f"{name}.jsa"


def ready(java_version: str, tell: Callable[[str], None], log4j: str) -> Path | None:
    """Return the archive, created if missing; ``None`` if it cannot be created: Spark also starts without it.

    Two processes may create it at the same time; it is renamed into place complete.
    """
    if any(character.isspace() for character in str(folder())):
        return None  # Spark splits Java options at blanks
    try:
        path = path_of(spark_home(), java_version)
        if path.exists():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        tell("making a class-data archive, once; later starts are shorter")
        _make(path, log4j)
    except (OSError, subprocess.SubprocessError):
        return None
    return path if path.exists() else None


def _make(path: Path, log4j: str) -> None:
    """Run a small job through spark-submit, which waits until the JVM has written its archive; PySpark does not wait."""
    home = spark_home()
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as scratch:
        archive_path = Path(scratch) / "spark.jsa"
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.catalogImplementation": "in-memory",
        }
        arguments = [
            word for key, value in settings.items() for word in ("--conf", f"{key}={value}")
        ]
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
        }
        subprocess.run(  # noqa: S603 - Spark's own launcher with our own script
            [
                str(home / "bin" / "spark-submit"),
                *("--master", "local[2]", "--driver-memory", _MEMORY),
                *arguments,
                *("--driver-java-options", _MAKE.format(path=archive_path, log4j=log4j)),
                *(str(WARM), scratch),
            ],
            env={
                **environment,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_DRIVER_PYTHON": sys.executable,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=MAKING_SECONDS,
        )
        archive_path.replace(path)
