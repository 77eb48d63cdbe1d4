"""What the pipeline reports: rows about impact and sizing, the evidence they rest on, and whole reports. Values only.

The same rows come from the core and from Spark; renderers and tests know only these.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.usage.demand_bounds import FigureBound, LimitMove, move
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.verdict import (
    MINUTES_PER_DAY,
    SEVERITY,
    ImpactVerdict,
    ToleranceBreach,
)
from reconciler.usage.recommendation.limit_sizes import Advice, SizingRule
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket
from reconciler.usage.throttle_models import ThrottleModel

BLIND: Final = frozenset({ImpactVerdict.NO_DATA, ImpactVerdict.NOT_IDENTIFIABLE})
"""Verdicts that say that nothing can be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceNote:
    """What a report rests on.

    Attributes:
        source: Where it was read from, without secrets.
        to_ms: Its end, not included.
        coverage_ppm: The share of the window that samples cover, of the broker that was seen least.
        snapshot_id: Which look at the quotas it was recorded under.
        partial: What is missing of it, in sentences; empty = nothing.
        counts: Named states of what was read: gaps, resets, refused series and the like.
        stale: Why it counts as none, "" = it counts.
    """

    cluster_id: str
    source: str = ""
    from_ms: int = 0
    to_ms: int = 0
    made_ms: int = 0
    step_ms: int = 0
    coverage_ppm: int = 0
    snapshot_id: str = ""
    partial: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    stale: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactRow:
    """One bucket on one broker, before and after; the columns of ``impact_row``.

    "Same" for a client that was throttled is no verdict on a tighter limit: such a row ranks above what gets
    better, is not judged and is not enough (`may_be_worse`).

    Attributes:
        any_name: Whether it speaks of many buckets that only traffic will name.
        broker_id: Where; "" where no broker saw it.
        before_units: The limit of today, in units (of several old buckets the lowest); ``None`` = unlimited.
        source_entity: Whose limit that will be, as canonical JSON; "" = none.
        answer: How far the series say what the bucket will use.
        bound: What the figures after are to the truth.
        before_throttled_ms: Simulated under the limit of today; ``None`` = no figure.
        observed_throttled_ms: What the broker was seen to do; ``None`` = not recorded.
        after_over_timeout_ms: Time with a delay above 120 s: records are lost.
        censored_ms: The part of it in which clients wanted more than was recorded.
        why: One sentence, "" where the answer is exact.
        worst_throttled_ms: ``after_throttled_ms`` in the worst case, where the bound is "between"; otherwise ``None``.
    """

    cluster_id: str
    quota_type: QuotaType
    bucket: Bucket
    any_name: bool
    broker_id: str
    before_units: int | None
    after_units: int | None
    source_entity: str
    answer: Identifiability
    verdict: ImpactVerdict
    bound: FigureBound
    model: ThrottleModel
    before_throttled_ms: int | None
    before_max_delay_ms: int | None
    observed_throttled_ms: int | None
    after_throttled_ms: int | None
    after_max_delay_ms: int | None
    after_over_timeout_ms: int | None
    delayed_units: int | None
    unfinished: int | None
    covered_ms: int
    censored_ms: int
    why: str
    worst_throttled_ms: int | None = None
    worst_max_delay_ms: int | None = None

    @property
    def held_back_ms(self) -> int:
        """For how long the clients were seen throttled or wanted more than was recorded: of the two the longer."""
        return max(self.censored_ms, self.observed_throttled_ms or 0)

    @property
    def may_be_worse(self) -> bool:
        """Whether "the same" only says that clients who were held back record no more than their limit.

        A tighter limit on censored samples gives a lower bound, and a lower bound that is near the
        figure of today shows no change in either direction. As everywhere, a minute a day is nothing.
        """
        return (
            self.verdict is ImpactVerdict.SAME
            and self.bound is FigureBound.AT_LEAST
            and self.held_back_ms * MINUTES_PER_DAY > self.covered_ms
            and move(self.before_units, self.after_units) is LimitMove.TIGHTER
        )

    @property
    def judged(self) -> bool:
        """Whether the verdict says what will happen."""
        return self.verdict not in BLIND and not self.may_be_worse

    @property
    def severity(self) -> int:
        """How soon it needs a look; what may be worse comes after what is blind, and before what gets better."""
        return MAY_BE_WORSE if self.may_be_worse else SEVERITIES[self.verdict]


SEVERITIES: Final[Mapping[ImpactVerdict, int]] = {
    verdict: 2 * at for at, verdict in enumerate(SEVERITY)
}
MAY_BE_WORSE: Final = SEVERITIES[ImpactVerdict.BETTER] + 1


def verdicts_of(rows: Iterable[ImpactRow]) -> dict[ImpactVerdict, int]:
    """How many rows have which verdict; nothing of those that none has."""
    verdict_counts = Counter(impact_row.verdict for impact_row in rows)
    return {
        verdict: verdict_counts[verdict] for verdict in ImpactVerdict if verdict_counts[verdict]
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TierBreach:
    """A figure beyond what the policy of a tier tolerates."""

    row: ImpactRow
    tier: str
    breach: ToleranceBreach


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What a change of limits would have done to recorded use.

    Attributes:
        evidence: One per cluster, sorted.
        rows: Worst first; the most telling ones only if ``left_out`` is not 0.
        left_out: How many rows are only counted.
        left_blind: How many of those could not be judged.
        verdicts: How many of all rows, shown or not, have which verdict. May be left away where all are shown.
        flipped: Buckets without limits that will be counted under other tags: ``(cluster, type, bucket)``.
        unexplained: Series that the limits in force cannot have made.
        notes: Sentences about the whole: what could not be looked at and why.

    Raises:
        QuotaValueError: The counts contradict the rows.
    """

    evidence: tuple[EvidenceNote, ...]
    rows: tuple[ImpactRow, ...]
    left_out: int = 0
    left_blind: int = 0
    verdicts: Mapping[ImpactVerdict, int] = field(default_factory=dict[ImpactVerdict, int])
    breaches: tuple[TierBreach, ...] = ()
    flipped: tuple[tuple[str, QuotaType, Bucket], ...] = ()
    unexplained: tuple[tuple[str, QuotaType, Bucket], ...] = ()
    notes: tuple[str, ...] = ()

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
        """How many of all rows could not be judged."""
        return self.left_blind + sum(not impact_row.judged for impact_row in self.rows)

    @property
    def may_be_worse(self) -> int:
        """How many of all rows may be worse (:attr:`ImpactRow.may_be_worse`)."""
        return self.blind - sum(self.verdicts.get(verdict, 0) for verdict in BLIND)

    @property
    def enough(self) -> bool:
        """Whether every row could be judged and every evidence counts: otherwise exit code 5 under ``--require-evidence``."""
        return not self.blind and not any(note.stale for note in self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationRow:
    """A limit for one bucket with its evidence; the columns of ``recommendation``, numbers as in :class:`~reconciler.usage.recommendation.limit_sizes.Recommendation`."""

    cluster_id: str
    quota_type: QuotaType
    bucket: Bucket
    source_entity: str
    tier: str
    advice: Advice
    current_units: int | None
    target_units: int | None
    needed_units: int | None
    lower_units: int | None
    upper_units: int | None
    worst_week_units: int | None
    peak_units: int
    train_share_ppm: int | None
    train_max_delay_ms: int | None
    test_share_ppm: int | None
    test_max_delay_ms: int | None
    confidence_ppm: int
    censored_ppm: int
    rules: tuple[SizingRule, ...]
    evidence_ms: int
    samples: int
    brokers: int
