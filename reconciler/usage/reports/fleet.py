"""What is reported of a whole fleet's limits: who gets which, what holds for no client, what a plan would change, what changed. Values only.

Rows have the columns of their tables. What is reported is bounded; everything is in the lake.
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
    """A limit that holds for no client; the columns of ``dead_quota``."""

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
    """One change of a limit as looks saw it; the columns of ``quota_change``."""

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
    """One cluster of a fleet in numbers.

    Attributes:
        look_ms: When the look was taken that everything is compared with.
        counts: Numbers by what they count, such as ``removals`` or ``drift-external``.
        violations: What guards say against its plan, in sentences.
    """

    cluster_id: str
    look_ms: int
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """What a job over a fleet reports.

    Attributes:
        about: ``resolve``, ``plan`` or ``history``.
        clusters: One per cluster that was looked at, sorted.
        left_out: Table -> how many rows are only in the lake.
        notes: Sentences about the whole: what could not be looked at and why.
    """

    about: str
    clusters: tuple[ClusterTotals, ...] = ()
    effective: tuple[EffectiveRow, ...] = ()
    dead: tuple[UnusedLimitRow, ...] = ()
    planned: tuple[PlannedRow, ...] = ()
    conflicts: tuple[ConflictRow, ...] = ()
    changed: tuple[LimitChangeRow, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether guards speak against a plan, or documents against one another."""
        return any(cluster.violations for cluster in self.clusters)
