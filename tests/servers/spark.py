"""A local session, a standalone Spark cluster and a Spark Connect server from the installed PySpark, on loopback.

The servers use temporary folders: nothing is written into the package. They end with the test run; their heaps are small for CI.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from reconciler.evidence.spark import session
from reconciler.evidence.spark.session_settings import SessionSettings
from tests.servers.ports import free_ports
from tests.servers.processes import HANG_SECONDS, Child, ScratchFolder, guardian
from tests.servers.prometheus import until

START_SECONDS = 240.0
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""With C1 alone a JVM reserves 48 MB for compiled code instead of 240. A few large jobs fill that, and the JVM ends."""
DRIVER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
EXECUTORS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "2",
}
"""Two executors with one core each."""
TREE = Path(__file__).parents[2]


def local_session() -> contextlib.AbstractContextManager[SparkSession]:
    """Open a classic session of 1 GB with two threads."""
    return session.opened(SessionSettings(master="local[2]", memory="1g"))


def _options(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]


def program(name: str) -> str:
    """Return the path of a program of the installed PySpark."""
    return str(Path(_find_spark_home()) / name)


def wheel(into: Path) -> Path:
    """Build the wheel of this source tree, as a zip file: Spark adds no other to the path of Python workers."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(into),
            str(TREE),
        ],
        check=True,
        timeout=HANG_SECONDS,
        capture_output=True,
    )
    (path,) = into.glob("*.whl")
    return path.rename(into / "kquota.zip")


class StandaloneCluster:
    """A master and workers, each with room for an executor of two applications, as a context manager."""

    def __init__(self, workers: int = 2) -> None:
        """Start them; entering the context waits until all workers are registered."""
        self._count = workers
        self.scratch = ScratchFolder.make("spark-cluster-")
        port, *web = free_ports(workers + 2)
        self.master = f"spark://127.0.0.1:{port}"
        self._log = self.scratch.path / "master.log"
        package = "org.apache.spark.deploy"
        self._children = [
            self._daemon(
                self._log,
                f"{package}.master.Master",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "--webui-port",
                str(web[0]),
            )
        ]
        until(
            lambda: "I have been elected leader" in self._log.read_text(errors="replace"),
            seconds=START_SECONDS,
            doing="starting a Spark master",
            details=self.log,
        )
        for number in range(workers):
            self._children.append(
                self._daemon(
                    self.scratch.path / f"worker-{number}.log",
                    f"{package}.worker.Worker",
                    "--host",
                    "127.0.0.1",
                    "--cores",
                    "2",
                    "--memory",
                    "2g",
                    "--webui-port",
                    str(web[number + 1]),
                    "--work-dir",
                    str(self.scratch.path / f"work-{number}"),
                    self.master,
                )
            )

    def _daemon(self, log: Path, *words: str) -> Child:
        settings = {**LOOPBACK, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK}
        return Child([program("bin/spark-class"), *words], log=log, environment=settings)

    def __enter__(self) -> Self:
        """Wait until every worker is registered."""
        try:
            until(
                lambda: self.log().count("Registering worker") == self._count,
                seconds=START_SECONDS,
                doing="starting Spark workers",
                details=self.log,
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the workers, then the master."""
        for child in reversed(self._children):
            child.kill()
        self.scratch.remove()

    def pin(self) -> None:
        """Let each worker and its executors use one core of this machine."""
        for core, worker in enumerate(self._children[1:]):
            for thread in Path(f"/proc/{worker.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})

    def log(self) -> str:
        """Return the master's log."""
        return self._log.read_text(errors="replace")

    def submit(
        self, main: Path, words: Sequence[str], *, package: Path | None, cores: int = 2
    ) -> "subprocess.CompletedProcess[str]":
        """Run a main file on the cluster, with the driver on this machine."""
        return submit(
            [
                "--master",
                self.master,
                "--deploy-mode",
                "client",
                "--driver-memory",
                "700m",
                "--driver-java-options",
                QUICK,
                *_options(EXECUTORS | {"spark.cores.max": str(cores)}),
            ],
            main,
            words,
            package=package,
        )


def submit(
    options: Sequence[str], main: Path, words: Sequence[str], *, package: Path | None
) -> "subprocess.CompletedProcess[str]":
    """Run `spark-submit` in an empty folder, so that only the given package can be imported."""
    with ScratchFolder.make("spark-submit-") as folder:
        return subprocess.run(
            [
                program("bin/spark-submit"),
                *options,
                *_options(DRIVER),
                "--conf",
                f"spark.pyspark.python={sys.executable}",
                *(("--py-files", str(package)) if package else ()),
                str(main),
                *words,
            ],
            cwd=folder,
            env={**os.environ, **LOOPBACK, "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
        )


class ConnectServer:
    """A Spark Connect server on a standalone cluster, started by Spark's scripts, as a context manager."""

    def __init__(self, cluster: StandaloneCluster, package: Path) -> None:
        """Configure the server, with a package for its Python workers; entering the context starts it."""
        self.scratch = ScratchFolder.make("spark-connect-")
        (self._port,) = free_ports(1)
        self.remote = f"sc://127.0.0.1:{self._port}"
        self._cluster, self._package = cluster, package
        self._pid = 0

    def __enter__(self) -> Self:
        """Start the server, and wait until it listens."""
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.executorEnv.PYTHONPATH": str(self._package),
            **DRIVER,
            **EXECUTORS,
        }
        try:
            self._script(
                "start",
                "--master",
                self._cluster.master,
                "--driver-memory",
                "700m",
                "--driver-java-options",
                QUICK,
                *_options(settings),
            )
            (file,) = self.scratch.path.glob("*.pid")
            self._pid = int(file.read_text())
            guardian().watch("pid", self._pid)
            until(
                self._listens,
                seconds=START_SECONDS,
                doing="starting a Connect server",
                details=self.log,
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server by Spark's script, or by SIGKILL after 20 s."""
        if self._pid:
            self._script("stop")
            try:
                until(
                    lambda: not _is_alive(self._pid), seconds=20, doing="stopping a Connect server"
                )
            except AssertionError:
                os.kill(self._pid, signal.SIGKILL)
            guardian().forget("pid", self._pid)
        self.scratch.remove()

    def log(self) -> str:
        """Return the end of the log."""
        return "".join(
            path.read_text(errors="replace")[-3000:] for path in self.scratch.path.glob("*.out")
        )

    def environment(self) -> Mapping[str, str]:
        """Return the environment of its scripts, with a separate folder for pid and log, so that other servers are unaffected."""
        folder = str(self.scratch.path)
        return {
            **os.environ,
            **LOOPBACK,
            "SPARK_HOME": _find_spark_home(),
            "SPARK_PID_DIR": folder,
            "SPARK_LOG_DIR": folder,
            "SPARK_IDENT_STRING": "tests",
            "PYSPARK_PYTHON": sys.executable,  # for its Python workers; there is no Spark setting for a Connect server
        }

    def _script(self, verb: str, *words: str) -> None:
        subprocess.run(
            [program(f"sbin/{verb}-connect-server.sh"), *words],
            cwd=self.scratch.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=verb == "start",
            timeout=HANG_SECONDS,
        )

    def _listens(self) -> bool:
        if not _is_alive(self._pid):
            raise AssertionError(f"the Connect server ended: {self.log()}")
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
