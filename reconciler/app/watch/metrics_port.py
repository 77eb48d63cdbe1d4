"""The measurements that a loop reports. Implemented by ``metrics.Metrics``; does nothing without metrics."""

from typing import Protocol

from reconciler.quota.results.report import Reconciliation


class WatchMetrics(Protocol):
    """As much of ``metrics.Metrics`` as a loop over git uses."""

    def passed(self, reconciliation: Reconciliation, /) -> None:
        """A pass ended."""
        ...

    def interval(self, cluster: str, seconds: float) -> None:
        """How often a cluster is looked at."""
        ...

    def queue(self, cluster: str, depth: int) -> None:
        """How many messages wait."""
        ...

    def batch(self, cluster: str, size: int) -> None:
        """How many messages a pass answers."""
        ...

    def kafka(self, cluster: str, api: str, seconds: float) -> None:
        """A broker answered."""
        ...

    def revision(self, cluster: str, commit: str, *, is_refused: bool) -> None:
        """Which revision is in force, and whether a newer one was refused."""
        ...

    def forget(self, cluster: str) -> None:
        """A cluster is no longer looked after."""
        ...


class NoWatchMetrics:
    """No measurements. Implements ``WatchMetrics``."""

    def passed(self, reconciliation: Reconciliation, /) -> None:
        """Nothing."""

    def interval(self, cluster: str, seconds: float) -> None:
        """Nothing."""

    def queue(self, cluster: str, depth: int) -> None:
        """Nothing."""

    def batch(self, cluster: str, size: int) -> None:
        """Nothing."""

    def kafka(self, cluster: str, api: str, seconds: float) -> None:
        """Nothing."""

    def revision(self, cluster: str, commit: str, *, is_refused: bool) -> None:
        """Nothing."""

    def forget(self, cluster: str) -> None:
        """Nothing."""
