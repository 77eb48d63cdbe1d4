"""The results of the pipeline: rows of impact and sizing, their evidence, and whole reports. Values only.

Previews and Spark jobs return the same rows; renderers depend only on these.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.verdict import (
    MINUTES_PER_DAY,
    SEVERITY,
    ImpactVerdict,
    ToleranceBreach,
)
from reconciler.usage.recommendation.limit_sizes import SizedLimit
from reconciler.usage.samples import QuotaType, ThrottleModel
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle_models import FigureBound, LimitMove, move

BLIND: Final = frozenset({ImpactVerdict.NO_DATA, ImpactVerdict.NOT_IDENTIFIABLE})
"""Verdicts without a judgement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceNote:
    """The evidence of a report."""

    cluster_id: str
    source: str = ""  # address of the samples, without secrets
    from_ms: int = 0
    to_ms: int = 0  # end of the window, exclusive
    made_ms: int = 0
    step_ms: int = 0
    coverage_ppm: int = 0  # the covered share of the window, of the broker with the lowest coverage
    snapshot_id: str = ""  # the snapshot of the limits
    partial: tuple[str, ...] = ()  # what is missing, as sentences; empty = nothing
    # Counts by state of the input: gaps, resets, refused series and the like.
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    stale: str = ""  # why it does not count as evidence, "" = it counts


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactRow:
    """One bucket on one broker, before and after; the columns of ``impact_row``.

    For a client that was throttled, "same" is no verdict on a tighter limit: such a row ranks above "better", is not judged
    and is not enough (`may_be_worse`).
    """

    cluster_id: str
    quota_type: QuotaType
    bucket: Bucket
    any_name: bool  # whether it represents many buckets whose names are unknown
    broker_id: str  # the broker; "" if no broker recorded it
    # The current limit, in units (the lowest of several old buckets); None = unlimited.
    before_units: int | None
    after_units: int | None
    source_entity: str  # the entity of the new limit as canonical JSON; "" = none
    answer: Identifiability  # how far the series determine the use of the bucket
    verdict: ImpactVerdict
    bound: FigureBound  # the relation of the figures after the change to the true values
    model: ThrottleModel
    before_throttled_ms: int | None  # simulated under the current limit; None = no figure
    before_max_delay_ms: int | None
    observed_throttled_ms: int | None  # throttled time recorded by the broker; None = not recorded
    after_throttled_ms: int | None
    after_max_delay_ms: int | None
    after_over_timeout_ms: int | None  # time with a delay above 120 s: records are lost
    delayed_units: int | None
    unfinished: int | None
    covered_ms: int
    censored_ms: int  # the part of `covered_ms` in which clients wanted more than was recorded
    why: str  # one sentence, "" if the answer is exact
    # `after_throttled_ms` in the worst case if the bound is "between"; otherwise None.
    worst_throttled_ms: int | None = None
    worst_max_delay_ms: int | None = None

    @property
    def held_back_ms(self) -> int:
        """The time in which clients were throttled or wanted more than was recorded: the longer of the two."""
        return max(self.censored_ms, self.observed_throttled_ms or 0)

    @property
    def may_be_worse(self) -> bool:
        """Whether "same" may only mean that clients were held back and recorded no more than their limit.

        A tighter limit on censored samples gives a lower bound, and a lower bound near the current figure shows no change in
        either direction. Up to a minute a day is ignored, as in other verdicts.
        """
        return (
            self.verdict is ImpactVerdict.SAME
            and self.bound is FigureBound.AT_LEAST
            and self.held_back_ms * MINUTES_PER_DAY > self.covered_ms
            and move(self.before_units, self.after_units) is LimitMove.TIGHTER
        )

    @property
    def judged(self) -> bool:
        """Whether the verdict predicts the effect."""
        return self.verdict not in BLIND and not self.may_be_worse

    @property
    def severity(self) -> int:
        """Display priority; "may be worse" ranks below rows without a judgement and above "better"."""
        return MAY_BE_WORSE if self.may_be_worse else SEVERITIES[self.verdict]


SEVERITIES: Final[Mapping[ImpactVerdict, int]] = {
    verdict: 2 * at for at, verdict in enumerate(SEVERITY)
}
MAY_BE_WORSE: Final = SEVERITIES[ImpactVerdict.BETTER] + 1


def verdicts_of(rows: Iterable[ImpactRow]) -> dict[ImpactVerdict, int]:
    """Return the number of rows by verdict, without zeros."""
    verdict_counts = Counter(impact_row.verdict for impact_row in rows)
    return {
        verdict: verdict_counts[verdict] for verdict in ImpactVerdict if verdict_counts[verdict]
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TierBreach:
    """A figure beyond the tolerance of a tier."""

    row: ImpactRow
    tier: str
    breach: ToleranceBreach


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The effect of changed limits on recorded use.

    Raises:
        QuotaValueError: The counts contradict the rows.
    """

    evidence: tuple[EvidenceNote, ...]  # one per cluster, sorted
    rows: tuple[ImpactRow, ...]  # worst first; only the worst if `left_out` is not 0
    left_out: int = 0  # number of rows that are only counted
    left_blind: int = 0  # number of those without a judgement
    # Number of all rows, shown or not, by verdict. May be omitted if all rows are shown.
    verdicts: Mapping[ImpactVerdict, int] = field(default_factory=dict[ImpactVerdict, int])
    breaches: tuple[TierBreach, ...] = ()
    notes: tuple[str, ...] = ()  # sentences about the whole: what could not be checked and why

    def __post_init__(self) -> None:
        shown_counts = verdicts_of(self.rows)
        if not self.verdicts and not self.left_out:
            object.__setattr__(self, "verdicts", shown_counts)
        if sum(self.verdicts.values()) != len(self.rows) + self.left_out:
            raise QuotaValueError("the verdicts of a simulation are not as many as its rows")
        hidden = {
            verdict: self.verdicts.get(verdict, 0) - shown_counts.get(verdict, 0)
            for verdict in ImpactVerdict
        }
        blind = sum(hidden[verdict] for verdict in BLIND)
        if (
            min(hidden.values()) < 0
            or not blind <= self.left_blind <= blind + hidden[ImpactVerdict.SAME]
        ):
            raise QuotaValueError("the verdicts of a simulation are not those of its rows")

    @property
    def blind(self) -> int:
        """The number of all rows without a judgement."""
        return self.left_blind + sum(not impact_row.judged for impact_row in self.rows)

    @property
    def may_be_worse(self) -> int:
        """The number of all rows that may be worse (:attr:`ImpactRow.may_be_worse`)."""
        return self.blind - sum(self.verdicts.get(verdict, 0) for verdict in BLIND)

    @property
    def enough(self) -> bool:
        """Whether every row is judged and all evidence counts: otherwise exit code 5 with ``--require-evidence``."""
        return not self.blind and not any(note.stale for note in self.evidence)


@dataclass(frozen=True, kw_only=True)
class RecommendedBucket:
    """The bucket that a limit is recommended for, its present limit's entity, and its tier."""

    cluster_id: str
    quota_type: QuotaType
    bucket: Bucket
    source_entity: str
    tier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationRow(SizedLimit, RecommendedBucket):
    """A recommended limit for one bucket with its evidence; the columns of ``recommendation``."""
