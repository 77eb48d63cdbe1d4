"""What a report of use holds beside a simulation: use against limits, capacity, noisy neighbours, curves. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.usage.capacity import BudgetBasis
from reconciler.usage.impact.result_rows import (
    EvidenceNote,
    RecommendationRow,
    Simulation,
)
from reconciler.usage.reports.profiles import UsageState
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket


class TrafficDirection(StrEnum):
    """Which way bytes go, as clients see a broker."""

    INGRESS = "ingress"
    EGRESS = "egress"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Use of one bucket on one broker over a window; the columns of ``usage_row``.

    Attributes:
        broker_id: Where; "" where no broker saw it.
        limit_units: The limit in force at the end of the window; ``None`` = unlimited.
        source_entity: Whose limit that is, as canonical JSON; "" = none.
        p50_units: The rate that was not exceeded in half of the time, at most one histogram bucket too high.
        throttled_ms: Time in which the broker was seen to throttle; ``None`` = not recorded.
        censored_ms: Time in which more was wanted than recorded.
    """

    cluster_id: str
    quota_type: QuotaType
    bucket: Bucket
    broker_id: str
    limit_units: int | None
    source_entity: str
    covered_ms: int
    p50_units: int | None
    p95_units: int | None
    p99_units: int | None
    max_rate_units: int
    throttled_ms: int | None
    censored_ms: int
    state: UsageState


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRow:
    """One broker, one way; the columns of ``capacity_row``. Shares are millionths of the budget.

    Attributes:
        budget_units: What is left for clients, bytes/s: the smallest of the window; ``None`` = capacity not configured.
        committed_ppm: All limits over the budget; above one million is normal.
        coincident_ppm: What was served at the same time, at the 99.9th percentile of time.
        overload_ms: Time in which more than the budget was served.
        unattributed_ppm: Bytes that no bucket accounts for, of all bytes.
    """

    cluster_id: str
    broker_id: str
    direction: TrafficDirection
    budget_units: int | None
    committed_ppm: int | None
    coincident_ppm: int | None
    overload_ms: int | None
    unattributed_ppm: int | None
    covered_ms: int
    basis: BudgetBasis


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyRow:
    """A bucket in five minutes in which its broker was over budget; the columns of ``noisy_row``, bytes/s."""

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
    """Use of one bucket on one broker over time, with its limits; what a chart is drawn from.

    Attributes:
        points: ``(begin in ms, mean rate, largest rate)`` of equal spans, ascending; a missing span is a gap.
        before_units: The limit of today; ``None`` = unlimited.
        after_units: The limit to come, the same as before where nothing changes.
        throttled: Begins of the spans in which the broker was seen to throttle.
    """

    cluster_id: str
    quota_type: QuotaType
    bucket: Bucket
    broker_id: str
    points: tuple[tuple[int, int, int], ...]
    span_ms: int
    before_units: int | None
    after_units: int | None
    throttled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOrigin:
    """Where rows come from that a report did not make itself: the newest result of a cluster that the lake holds.

    Attributes:
        from_ms: Begin of the window that they speak of; ``None`` = they do not say.
        to_ms: Its end, not included.
        snapshot_id: The look at the limits that they were made under; "" = they do not say.
        other_window: Whether that window has other days than the report's.
    """

    table: str
    cluster_id: str
    from_ms: int | None
    to_ms: int | None
    snapshot_id: str
    made_ms: int
    other_window: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Everything that one page shows. Parts that were not asked for are empty.

    Attributes:
        evidence: One per cluster, sorted.
        origins: Where simulation and recommendations were taken from; empty = they were made just now.
        curves: At most some dozens.
        left_out: How many rows of each table are only counted, by the name of the table.
    """

    evidence: tuple[EvidenceNote, ...] = ()
    simulation: Simulation | None = None
    origins: tuple[ResultOrigin, ...] = ()
    recommendations: tuple[RecommendationRow, ...] = ()
    usage: tuple[UsageRow, ...] = ()
    capacity: tuple[CapacityRow, ...] = ()
    noisy: tuple[NoisyRow, ...] = ()
    curves: tuple[UsageCurve, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()
