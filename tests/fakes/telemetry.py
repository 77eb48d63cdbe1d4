"""Watch metrics that record their calls."""

from reconciler.quota.results.report import Reconciliation


class RecordedTelemetry:
    """Implements ``WatchMetrics``."""

    def __init__(self) -> None:
        self.passes: list[Reconciliation] = []
        self.intervals: dict[str, float] = {}
        self.depths: list[tuple[str, int]] = []
        self.batches: list[tuple[str, int]] = []
        self.calls: list[tuple[str, str]] = []
        self.revisions: list[tuple[str, str, bool]] = []
        self.forgotten: list[str] = []

    def record(self, reconciliation: Reconciliation, /) -> None:
        self.passes.append(reconciliation)

    def interval(self, cluster: str, seconds: float) -> None:
        self.intervals[cluster] = seconds

    def queue(self, cluster: str, depth: int) -> None:
        self.depths.append((cluster, depth))

    def batch(self, cluster: str, size: int) -> None:
        self.batches.append((cluster, size))

    def kafka(self, cluster: str, api: str, seconds: float) -> None:
        self.calls.append((cluster, api))

    def revision(self, cluster: str, commit: str, *, is_refused: bool) -> None:
        self.revisions.append((cluster, commit, is_refused))

    def forget(self, cluster: str) -> None:
        self.forgotten.append(cluster)
