"""Fixtures of the tests on Spark: a standalone cluster, a Connect server, the wheel; each started on demand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import spark as servers


@pytest.fixture(scope="session")
def cluster() -> Iterator[servers.StandaloneCluster]:
    """A standalone cluster with two workers; jobs are started by its `submit`, or by the Connect server."""
    with servers.StandaloneCluster(workers=2) as running:
        yield running


@pytest.fixture(scope="session")
def connect(cluster: servers.StandaloneCluster, wheel: Path) -> Iterator[servers.ConnectServer]:
    """A Spark Connect server whose jobs run on two executors of the cluster. A process has only one kind of session, so
    clients are separate processes."""
    with servers.ConnectServer(cluster, wheel) as running:
        yield running


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, as a zip file."""
    return servers.wheel(tmp_path_factory.mktemp("wheel"))
