"""Right-sizing: tiers, cases and results, and the rules of a tier applied to the smallest limit that meets its promise.

Each broker is simulated separately: the largest rate over brokers at each moment would combine the peaks of different
brokers into a backlog that never drains. The last week is held out; the reported figures are those of the final limit,
after all rules, on both parts. Older samples are not weighted less, because weights would be fractions.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.usage.recommendation.trial import three_digits
from reconciler.usage.samples import DAY_MS, MAX_UNITS, MILLION, QuotaType

WEEK_MS: Final = 7 * DAY_MS
LEAST_EVIDENCE_MS: Final = 14 * DAY_MS
LEAST_SAMPLES: Final = 100
LEAST_COVERED_PPM: Final = 10_000
"""The least evidence for a limit: its time from begin to end, its samples, and the share of the window that a broker covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The promise to a group of entities, and the rules for their limits."""

    name: str
    share_ppm: int  # largest share of time that may be throttled, in millionths
    max_delay_ms: int | None  # worst delay; None = any
    margin_percent: int = 15
    bump_percent: int = 20  # added if more demand was censored than the share; 0 = never
    floor: int = 1  # smallest limit, in units
    ceiling: int | None = None  # largest limit; None = none
    ignore_percent: int = 10  # smaller changes are not recommended
    # The largest reduction at once: producers time out when a limit drops sharply.
    cut_percent: int = 50

    def __post_init__(self) -> None:
        if not 0 < self.share_ppm <= MILLION or (
            self.max_delay_ms is not None and self.max_delay_ms < 0
        ):
            raise QuotaValueError(
                f"tier {self.name}: a share is from 1 to {MILLION} millionths, a delay at least 0"
            )
        if min(self.margin_percent, self.bump_percent, self.ignore_percent) < 0 or not (
            0 < self.cut_percent <= 100
        ):
            raise QuotaValueError(
                f"tier {self.name}: percentages are positive, a cut is at most 100"
            )
        if not 0 < self.floor <= (MAX_UNITS if self.ceiling is None else self.ceiling) <= MAX_UNITS:
            raise QuotaValueError(
                f"tier {self.name}: the floor must lie above 0 and below the ceiling"
            )


GOLD: Final = Tier(name="gold", share_ppm=1_000, max_delay_ms=60_000)
SILVER: Final = Tier(name="silver", share_ppm=5_000, max_delay_ms=600_000)
BATCH: Final = Tier(name="batch", share_ppm=10_000, max_delay_ms=None, bump_percent=0)


class Advice(StrEnum):
    """The result of sizing."""

    CHANGE = "change"
    KEEP = "keep"  # the current limit is near enough, or it is pinned
    INSUFFICIENT = "insufficient"  # too little evidence, or no use at all
    REFUSED = "refused"  # the target breaks the promise in the held-out week


class SizingRule(StrEnum):
    """A rule that changed the target."""

    BUMP = "bump"
    FLOOR = "floor"
    CEILING = "ceiling"
    BUDGET = "budget"
    CUT = "cut"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingCase:
    """One bucket to size."""

    kind: QuotaType
    from_ms: int
    to_ms: int  # end of the window, exclusive
    max_gap_ms: int
    current: int | None = None  # its current limit; None = unlimited
    budget: int | None = None  # budget of a broker for clients; None = unknown
    pinned: bool = False  # whether a document has the label `sizing: pinned`: only reported
    # Whether its limit was already raised because of this window; prevents repeated raising.
    bumped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedLimit:
    """A limit with its evidence: the columns of ``recommendation`` without its key. ``None`` without enough evidence."""

    advice: Advice
    current_units: int | None
    target_units: int | None = None
    needed_units: int | None = None  # the smallest limit that meets the promise, before any rule
    lower_units: int | None = None  # the smallest that meets it at twice the share
    upper_units: int | None = None  # the smallest that meets it at half the share
    worst_week_units: int | None = None  # the largest limit that a single week needed
    peak_units: int = 0  # largest rate before the held-out week
    # The result of the target on the weeks used for sizing, and on the held-out one: the share of the time in millionths
    # and the worst delay, each of the worst broker.
    train_share_ppm: int | None = None
    train_max_delay_ms: int | None = None
    test_share_ppm: int | None = None
    test_max_delay_ms: int | None = None
    # Covered share of the window, in millionths, of the broker with the lowest coverage.
    confidence_ppm: int = 0
    # Share of the covered time in which demand was higher than recorded, in millionths.
    censored_ppm: int = 0
    rules: tuple[SizingRule, ...] = ()  # the rules that changed the target, in order
    evidence_ms: int = 0  # time from the first sample to the end of the last
    samples: int = 0
    brokers: int = 0  # number of brokers with samples


def priced(
    needed: int, tier: Tier, case: SizingCase, censored_ppm: int
) -> tuple[int, tuple[SizingRule, ...]]:
    """Apply the rules of a tier to the needed limit, in the order of :class:`SizingRule`.

    A limit is raised for censored demand once per window. Within that window a raised limit is kept, up to the value that
    raising would give now; otherwise a run would undo the raise of the run before. The budget of a broker has precedence over
    the floor; reductions are still limited to steps. Rounds up to three significant digits, or down if up exceeds budget or ceiling.

    Args:
        needed: Units.
        tier: The tier with its rules.
        case: Current limit, budget, marks.
        censored_ppm: The share of time in which demand was higher than recorded.

    Returns:
        The limit, and the rules that changed it.
    """
    rules: list[SizingRule] = []
    value = _percent(needed, 100 + tier.margin_percent)
    if censored_ppm > tier.share_ppm and tier.bump_percent and not case.pinned:
        raised = _percent(value, 100 + tier.bump_percent)
        if case.bumped:
            value = max(value, min(raised, case.current or 0))
        else:
            value = raised
            rules.append(SizingRule.BUMP)
    if value < tier.floor:
        value = tier.floor
        rules.append(SizingRule.FLOOR)
    top = MAX_UNITS - 1
    for bound, rule in ((tier.ceiling, SizingRule.CEILING), (case.budget, SizingRule.BUDGET)):
        if bound is not None and bound < top:
            top = max(1, bound)
            if value > top:
                value = top
                rules.append(rule)
    if case.current is not None:
        near = abs(value - case.current) * 100 < tier.ignore_percent * case.current
        if near and case.current <= top:
            return case.current, (*rules, SizingRule.IGNORED)
        least = _percent(case.current, 100 - tier.cut_percent)
        if value < least:
            return three_digits(least, up=True), (*rules, SizingRule.CUT)
    return _rounded(value, tier.floor, top), tuple(rules)


def _rounded(value: int, floor: int, top: int) -> int:
    up, down = three_digits(value, up=True), three_digits(value, up=False)
    if up <= top:
        return up
    return down if down >= min(floor, value) else value


def _percent(value: int, percent: int) -> int:
    return -(-value * percent // 100)
