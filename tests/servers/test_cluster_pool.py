"""Tests of the pool: clusters are shared by arguments, and broken ones are replaced."""

from typing import Self

from tests.servers.cluster_pool import SharedClusters


class Fake:
    """A cluster of two nodes that has only their state."""

    def __init__(self, version: str, **options: object) -> None:
        self.version, self.options = version, options
        self.numbers = (1, 2)
        self.dead: set[int] = set()
        self.entered = 0

    def __enter__(self) -> Self:
        self.entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.dead = set(self.numbers)

    def running(self, number: int) -> bool:
        return number not in self.dead


def test_the_same_arguments_give_the_same_cluster() -> None:
    shared = SharedClusters(Fake)
    cluster = shared.get("4.0.1", nodes=2, acls=True)
    assert shared.get("4.0.1", acls=True, nodes=2) is cluster
    assert shared.get("4.0.1", nodes=2) is not cluster
    assert cluster.entered == 1


def test_a_cluster_with_a_stopped_node_is_replaced() -> None:
    shared = SharedClusters(Fake)
    broken = shared.get("4.0.1")
    broken.dead.add(2)
    fresh = shared.get("4.0.1")
    assert fresh is not broken
    assert broken.dead == {1, 2}


def test_the_least_recently_used_cluster_is_stopped() -> None:
    shared = SharedClusters(Fake, capacity=2)
    first, second = shared.get("3.4.1"), shared.get("3.9.1")
    assert shared.get("3.4.1") is first
    shared.get("4.0.1")
    assert second.dead
    assert not first.dead


def test_all_clusters_are_stopped_together() -> None:
    shared = SharedClusters(Fake)
    clusters = [shared.get("3.4.1"), shared.get("3.9.1")]
    shared.close()
    assert all(cluster.dead for cluster in clusters)
