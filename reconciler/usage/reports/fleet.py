"""Reports on the limits of a fleet: effective limits, unused limits, changes of a plan, history of changes. Values only.

Rows have the columns of their tables. Reports are bounded; all rows are in the lake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRow:
    """The limit of one client (or of the tags of a bucket) for one key; the columns of ``effective_quota``."""

    cluster_id: str
    user: str
    client_id: str
    ip: str
    quota_key: str
    value: float | None
    quota_units: int | None
    level: int | None
    source_entity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedLimitRow:
    """A limit that applies to no client; the columns of ``dead_quota``."""

    cluster_id: str
    entity_json: str
    quota_key: str
    value: float
    reason: str
    last_effective_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRow:
    """One change of a fleet plan; the columns of ``plan_row``."""

    cluster_id: str
    entity_json: str
    level: int
    quota_key: str
    action: str
    cause: str
    before: float | None
    after: float | None
    document: str
    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRow:
    """One of several claims on a pair; the columns of ``plan_conflict``."""

    cluster_id: str
    entity_json: str
    quota_key: str
    value: float
    document: str
    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChangeRow:
    """One change of a limit between snapshots; the columns of ``quota_change``."""

    cluster_id: str
    entity_json: str
    quota_key: str
    from_ms: int
    from_after_ms: int
    to_ms: int | None
    before: float | None
    after: float | None
    cause: str
    commit: str
    writer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTotals:
    """The counts of one cluster of a fleet."""

    cluster_id: str
    look_ms: int  # time of the last complete snapshot, milliseconds since the epoch
    # Counts by name, such as `removals` or `drift-external`.
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    violations: tuple[str, ...] = ()  # guards that its plan violates, as sentences


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """The report of a fleet job."""

    about: str  # `resolve`, `plan` or `history`
    clusters: tuple[ClusterTotals, ...] = ()  # one per cluster with a complete snapshot, sorted
    effective: tuple[EffectiveRow, ...] = ()
    dead: tuple[UnusedLimitRow, ...] = ()
    planned: tuple[PlannedRow, ...] = ()
    conflicts: tuple[ConflictRow, ...] = ()
    changed: tuple[LimitChangeRow, ...] = ()
    # Number of rows that are only in the lake, by table.
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()  # sentences about the whole: what could not be checked and why

    @property
    def is_refused(self) -> bool:
        """Whether a plan violates guards or documents conflict."""
        return any(cluster.violations for cluster in self.clusters)
