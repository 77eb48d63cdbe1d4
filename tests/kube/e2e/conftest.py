"""One Kubernetes, one Kafka and one installed chart for all end-to-end tests; a separate `world` for each of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.e2e.world import Place, World
from tests.servers.kafka import StartKafka
from tests.servers.kube.cluster import KubeCluster


@pytest.fixture(scope="session")
def place(kafka: StartKafka) -> Iterator[Place]:
    """The chart installed by helm, with the operator's rights and no operator running."""
    with KubeCluster() as kube:
        yield Place(kube, kafka("4.4.0"))


@pytest.fixture
def world(place: Place, tmp_path: Path) -> Iterator[World]:
    """An empty Kafka and Kubernetes, and functions to start operators."""
    place.clear()
    with World(place, tmp_path) as new_world:
        yield new_world
