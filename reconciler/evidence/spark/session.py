"""Sessions: local with tuned settings, on a cluster with its own settings, or through Spark Connect.

Settings apply to ``local`` masters only. Under spark-submit, on a cluster and with a Connect server, its operator
configures Spark, and nothing is set here.
"""

import contextlib
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from reconciler.errors import ConfigError, SparkError
from reconciler.evidence.spark import jvm
from reconciler.evidence.spark.session_settings import SessionSettings

ANSWER_SECONDS: Final = 15
"""Maximum time in seconds until a Connect server answers."""

_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\d+)?\])?")
_NAME: Final = "kquota"
_LOOPBACK: Final = "127.0.0.1"
_LOG4J: Final = Path(__file__).with_name("log4j2.properties")
"""Only errors are logged: Spark warns of harmless things."""


def local_cores(master: str) -> int | None:
    """Return the number of threads of a local master; ``None`` if the master is not ``local`` (``local-cluster`` runs several processes)."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    cores = match["cores"] or "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)


def submitted() -> bool:
    """Whether spark-submit started this process, and with it the JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is connected to a Connect server: then it has no context, no JVM and no executed plans."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def local_settings(cores: int) -> dict[str, str]:
    """Return the settings of a session on one machine; other sessions get none.

    Spark's default of 200 partitions would mean 200 tasks of milliseconds each.
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
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
    }


def started(settings: SessionSettings) -> SparkSession:
    """Return a session. Only one kind per process: PySpark cannot have a classic and a Connect session at the same time.

    Args:
        settings: Where the session runs.

    Raises:
        ConfigError: Java is missing or too old, or the settings contradict spark-submit.
        SparkError: No session can be started.
    """
    if submitted():
        if settings != SessionSettings():
            raise ConfigError(
                "spark-submit has chosen where this runs",
                key="master",
                hint="give --master, --remote and --driver-memory to spark-submit, before the main file",
            )
        return SparkSession.builder.getOrCreate()
    remote = settings.remote or (None if settings.master else os.environ.get("SPARK_REMOTE"))
    try:
        return _connected(remote) if remote else _classic(settings)
    except (PySparkException, OSError, RuntimeError) as error:
        raise SparkError(
            f"no session at {remote or settings.master or 'local[*]'}: {str(error).splitlines()[0]}",
            hint="check the address, and that the server runs" if remote or settings.master else "",
        ) from error


def _connected(remote: str) -> SparkSession:
    """Return a session of a Connect server, after a check of its address: PySpark retries for ten minutes."""
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - has no types; only Connect needs these
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415

    with DefaultChannelBuilder(remote).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
        except grpc.FutureTimeoutError:
            raise TimeoutError(f"no answer for {ANSWER_SECONDS} s") from None
    # Not ``getOrCreate``: a session that another part of the program uses keeps its settings.
    return SparkSession.builder.remote(remote).create()


def _classic(settings: SessionSettings) -> SparkSession:
    # Otherwise workers may use another interpreter.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jvm.check_java()
    master = settings.master or "local[*]"
    spark_options = {"spark.app.name": _NAME, "spark.master": master}
    if settings.memory:
        # Only read when the JVM starts.
        spark_options["spark.driver.memory"] = settings.memory
    cores = local_cores(master)
    if cores is not None:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        spark_options |= local_settings(cores)
    jvm.start(spark_options)
    builder = SparkSession.builder
    for key, value in spark_options.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stopped(spark: SparkSession) -> None:
    """End a session and the JVM that was started for it."""
    # A JVM that ended cannot be stopped, and its callers already got the error.
    with contextlib.suppress(jvm.LOST, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # PySpark warns about exactly this
        spark.stop()
    if not is_connect(spark):
        jvm.end()
        _restore_interrupts()


def _restore_interrupts() -> None:
    """Remove the handler of Ctrl-C that PySpark leaves: without its session it fails."""
    handler = signal.getsignal(signal.SIGINT)
    is_left_behind = getattr(handler, "__module__", "") == SparkContext.__module__
    if is_left_behind and threading.current_thread() is threading.main_thread():
        _ = signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def opened(settings: SessionSettings) -> Iterator[SparkSession]:
    """Open a session while the block runs; Ctrl-C also ends its jobs and the JVM. Arguments as for :func:`started`.

    A classic session that the caller of several jobs opened before is used, and stays open, unless the settings name a
    place or an amount of memory.

    Raises:
        ConfigError: As for :func:`started`.
        SparkError: As for :func:`started`.
    """
    place = settings.master or settings.remote or settings.memory or os.environ.get("SPARK_REMOTE")
    active = None if place or submitted() else SparkSession.getActiveSession()
    spark = active or started(settings)
    try:
        yield spark
    finally:
        if active is None:
            stopped(spark)
