"""What tests on Spark share: one session of 1 GB with two threads, a standalone cluster, a Connect server; each when needed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reconciler.evidence.spark.runtime import session
from tests.servers import jars
from tests.servers import spark as servers

SETTINGS = session.SessionSettings(master="local[2]", memory="1g", brief=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session; tests that take it are marked `integration`."""
    jars.java_identity()
    with session.opened(SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
def cluster() -> Iterator[servers.StandaloneCluster]:
    """A standalone cluster with two workers of one core; jobs get there by its `submit`."""
    with servers.StandaloneCluster(workers=2) as running:
        yield running


@pytest.fixture(scope="session")
def connect() -> Iterator[servers.ConnectServer]:
    """A Spark Connect server. One process has one kind of session, so clients of it are processes of their own."""
    with servers.ConnectServer() as running:
        yield running


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return servers.wheel(tmp_path_factory.mktemp("wheel"))
