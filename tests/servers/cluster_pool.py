"""Running clusters that tests share by equal arguments.

A cluster with a dead node is replaced, because a test may kill nodes; only the most recently used
clusters keep running.
"""

from collections import OrderedDict
from collections.abc import Callable

from tests.servers.kafka import KafkaCluster

KEPT = 10  # a node takes about 150 MiB and one or two percent of a core while idle


class SharedClusters:
    """Running clusters by their arguments; `close` them at the end."""

    def __init__(
        self, make: Callable[..., KafkaCluster] = KafkaCluster, *, capacity: int = KEPT
    ) -> None:
        """Create clusters with `make`; at most `kept` run at the same time."""
        self._make = make
        self._capacity = capacity
        self._running: OrderedDict[str, KafkaCluster] = OrderedDict()

    def get(self, version: str, **options: object) -> KafkaCluster:
        """Return a running cluster for these arguments, with all nodes alive."""
        name = repr((version, sorted(options.items())))
        cluster = self._running.pop(name, None)
        if cluster is not None and not all(map(cluster.running, cluster.numbers)):
            cluster.__exit__()
            cluster = None
        if cluster is None:
            while len(self._running) >= self._capacity:
                self._running.popitem(last=False)[1].__exit__()
            cluster = self._make(version, **options).__enter__()
        self._running[name] = cluster
        return cluster

    def close(self) -> None:
        """Stop all clusters."""
        while self._running:
            self._running.popitem()[1].__exit__()
