"""The measurements that a loop reports. Implemented by ``metrics.Metrics``; does nothing without metrics."""

from typing import Protocol

from reconciler.quota.results.report import Reconciliation


class WatchMetrics(Protocol):
    """The part of ``metrics.Metrics`` that a loop over git uses."""

    def record(self, reconciliation: Reconciliation, /) -> None:
        """Record the end of a reconciliation."""

    def interval(self, cluster: str, seconds: float) -> None:
        """Set the interval of a cluster."""

    def queue(self, cluster: str, depth: int) -> None:
        """Set the number of waiting keys."""

    def batch(self, cluster: str, size: int) -> None:
        """Record the number of keys of a reconciliation."""

    def kafka(self, cluster: str, api: str, seconds: float) -> None:
        """Record the latency of a broker's response."""

    def revision(self, cluster: str, commit: str, *, is_refused: bool) -> None:
        """Set the metrics for the applied revision and for a refused newer revision."""

    def forget(self, cluster: str) -> None:
        """Remove the series of a cluster that is no longer served."""


class NoWatchMetrics:
    """Records nothing. Implements ``WatchMetrics``."""

    def _ignore(self, *_: object, **__: object) -> None:
        """Do nothing."""

    record = interval = queue = batch = kafka = revision = forget = _ignore
