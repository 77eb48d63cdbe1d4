"""The parts of a use report besides simulations: use against limits, capacity, noisy neighbours, curves. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.usage.capacity import BudgetBasis
from reconciler.usage.impact.result_rows import EvidenceNote, RecommendationRow, Simulation
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket


class UsageState(StrEnum):
    """The use of a bucket on one broker relative to its limit."""

    UNUSED = "unused"  # recorded, without any use
    IDLE = "idle"  # used, never above a tenth of its limit
    USED = "used"
    NEAR_LIMIT = "near_limit"  # at nine tenths of its limit or above, and not throttled
    THROTTLED = "throttled"
    NO_DATA = "no_data"  # the broker does not record this type


class TrafficDirection(StrEnum):
    """The direction of bytes, from the view of the broker."""

    INGRESS = "ingress"
    EGRESS = "egress"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Use of one bucket on one broker over a window; the columns of ``usage_row``."""

    cluster_id: str
    quota_type: QuotaType
    bucket: Bucket
    broker_id: str  # the broker; "" if no broker recorded it
    limit_units: int | None  # the limit in force at the end of the window; None = unlimited
    source_entity: str  # the entity of that limit as canonical JSON; "" = none
    covered_ms: int
    # The rate not exceeded in half of the time, at most one histogram bucket too high.
    p50_units: int | None
    p95_units: int | None
    p99_units: int | None
    max_rate_units: int
    throttled_ms: int | None  # throttled time recorded by the broker; None = not recorded
    censored_ms: int  # time in which clients wanted more than was recorded
    state: UsageState


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRow:
    """One broker and direction; the columns of ``capacity_row``. Shares are millionths of the budget."""

    cluster_id: str
    broker_id: str
    direction: TrafficDirection
    # The smallest rate left for clients in the window, bytes/s; None = capacity not configured or unknown.
    budget_units: int | None
    committed_ppm: int | None  # sum of all limits over the budget; above one million is normal
    # Rate served to all clients at the same time, at the 99.9th percentile of time.
    coincident_ppm: int | None
    overload_ms: int | None  # time in which the served rate exceeded the budget
    unattributed_ppm: int | None  # bytes of no bucket, in millionths of all bytes
    covered_ms: int
    basis: BudgetBasis


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyRow:
    """A bucket in a five-minute interval with its broker over budget; the columns of ``noisy_row``, bytes/s."""

    cluster_id: str
    broker_id: str
    bucket_ms: int
    quota_type: QuotaType
    bucket: Bucket
    budget_units: int
    rate_units: int
    fair_units: int
    excess_units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCurve:
    """Use of one bucket on one broker over time, with its limits; the data of a chart."""

    cluster_id: str
    quota_type: QuotaType
    bucket: Bucket
    broker_id: str
    # `(begin in ms, mean rate, largest rate)` of equal spans, ascending; a missing span is a gap.
    points: tuple[tuple[int, int, int], ...]
    span_ms: int
    before_units: int | None  # the current limit; None = unlimited
    after_units: int | None  # the new limit; equal to `before_units` without a change
    throttled: tuple[int, ...] = ()  # begins of the spans in which the broker recorded throttling


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOrigin:
    """The origin of rows that another job committed: the newest result of a cluster in the lake."""

    table: str
    cluster_id: str
    from_ms: int  # begin of the window of the rows
    to_ms: int  # end of the window, exclusive
    snapshot_id: str  # the snapshot of the limits
    made_ms: int
    other_window: bool  # whether that window has other days than the report


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The content of one page. Parts that were not requested are empty."""

    evidence: tuple[EvidenceNote, ...] = ()  # one note per cluster, sorted
    simulation: Simulation | None = None
    # Origins of simulation and recommendations in the lake; empty = results of this run.
    origins: tuple[ResultOrigin, ...] = ()
    recommendations: tuple[RecommendationRow, ...] = ()
    usage: tuple[UsageRow, ...] = ()
    capacity: tuple[CapacityRow, ...] = ()
    noisy: tuple[NoisyRow, ...] = ()
    curves: tuple[UsageCurve, ...] = ()  # at most a few dozen
    # Number of rows of each table that are only counted, by table name.
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()
