"""What a run of ``kquota spark ingest`` came to: values that its outputs are made from."""

from dataclasses import dataclass

from reconciler.evidence.ingest.drop_reasons import DropCounts
from reconciler.evidence.ingest.sample_days import ClusterArrivals, DayReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIngestSummary:
    """What became of one cluster.

    Attributes:
        display_name: What people call it.
        cluster_id: Its id.
        window: What was asked for; ``None`` = files, or nothing.
        arrived: What came.
        days: Every day as it stands now.
        published: Where evidence was published, and of which time; ``None`` = not.
        failures: Why it did not all work.
    """

    display_name: str
    cluster_id: str
    window: tuple[int, int] | None
    arrived: ClusterArrivals
    days: tuple[DayReport, ...]
    published: tuple[str, int, int] | None
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSummary:
    """What became of a run.

    Attributes:
        lake: Where, without secrets.
        clusters: One per cluster.
        snapshots: Looks that are new.
        applies: Applies that are new.
        strange: Looks and applies of other clusters: left alone.
        counts: What became of series in files, also those of no cluster.
        failures: What is about no single cluster.
    """

    lake: str
    clusters: tuple[ClusterIngestSummary, ...]
    snapshots: int
    applies: int
    strange: int
    counts: DropCounts
    failures: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether something that was wanted was not had."""
        return bool(self.failures) or any(cluster.failures for cluster in self.clusters)
