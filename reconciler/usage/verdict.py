"""What a change of limits means for one bucket on one broker, in one word with its evidence; and the what-if policy.

Every figure says what it is to the truth. The recursion grows with demand, so recorded use, which is at most the
demand, gives a lower bound wherever it is censored; and the sum of series that hold other clients too gives an upper
one. Where both would be needed there is no figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from reconciler.usage.buckets import Answer
from reconciler.usage.censoring import Bound, Move, move
from reconciler.usage.samples import DAY_MS, Censored, QuotaType, Sample
from reconciler.usage.series import censored_ms, covered_ms, summed, throttled_ms
from reconciler.usage.throttle import MIN_DELAY_MS, Forecast, Model, arrivals, simulate

MINUTES_PER_DAY: Final = 1_440

GET_LESS: Final = frozenset({QuotaType.FETCH})
"""Types whose limited clients get less than the limit, so that a forecast is too low wherever it delays anything.

A fetch that does not fit is answered empty, its bytes are taken off the record, and the client waits as if they had
counted (ClientQuotaManager.unrecordQuotaSensor): real consumers got nine tenths of their limit and less
(docs/evidence-quality.md).
"""


class Verdict(StrEnum):
    """What to tell people."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    SAFE_BY_BOUND = "safe by bound"
    NOT_IDENTIFIABLE = "not identifiable"
    NO_DATA = "no data"


SEVERITY: Final = (
    Verdict.SAFE_BY_BOUND,
    Verdict.SAME,
    Verdict.BETTER,
    Verdict.NO_DATA,
    Verdict.NOT_IDENTIFIABLE,
    Verdict.WORSE,
)
"""From what needs no look to what needs one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An old bucket: its samples, and the limit that it has now, in units (``None`` = unlimited)."""

    samples: Sequence[Sample]
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One bucket on one broker before and after.

    Attributes:
        verdict: In one word.
        bound: What ``after`` is to the truth.
        before: The limits of today over the whole time; of several parts the one that is throttled longest, never a sum.
        observed_throttled_ms: What the broker was seen to do, of several parts the longest; ``None`` = not recorded.
        after: The limit to come; ``None`` = no figure can be given.
        covered_ms: The time that the evidence covers.
        censored_ms: The part of it in which the clients wanted more than was recorded.
    """

    verdict: Verdict
    bound: Bound
    before: Forecast | None
    observed_throttled_ms: int | None
    after: Forecast | None
    covered_ms: int
    censored_ms: int


def impact(
    kind: QuotaType,
    answer: Answer,
    parts: Sequence[Part],
    limit: int | None,
    *,
    max_gap_ms: int,
    min_delay_ms: int = MIN_DELAY_MS,
) -> Impact:
    """What a limit will do to a bucket on one broker.

    Args:
        kind: What is limited.
        answer: How far the parts say what the bucket will use (:func:`~reconciler.usage.buckets.regroup`).
        parts: The old buckets that it is made of, with the samples of this broker.
        limit: To come, in units; ``None`` = unlimited.
        max_gap_ms: A longer gap begins a session.
        min_delay_ms: A shorter delay is no throttling.

    Raises:
        QuotaValueError: Samples out of order or out of range, or a limit that cannot be simulated.
    """
    samples = summed(part.samples for part in parts)
    tells = bool(samples) and answer in (Answer.EXACT, Answer.BOUND)
    return weighed(
        answer,
        [part.limit for part in parts],
        limit,
        Facts(
            kind=kind,
            samples=len(samples),
            covered_ms=covered_ms(samples),
            censored_ms=censored_ms(samples),
            wanted_more=any(one.censored is Censored.YES for one in samples),
            may_have_wanted_more=any(one.censored is not Censored.NO for one in samples),
            before=tuple(
                simulate(kind, arrivals(part.samples, max_gap_ms), part.limit, min_delay_ms)
                for part in parts
            ),
            observed_ms=tuple(throttled_ms(part.samples) for part in parts),
            after=(
                simulate(kind, arrivals(samples, max_gap_ms), limit, min_delay_ms)
                if tells
                else None
            ),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What has to be known of the samples to judge them; an engine may gather it in its own way.

    Attributes:
        kind: What is limited.
        samples: How many moments the sum of the parts has.
        covered_ms: The time that they stand for.
        censored_ms: The part of it in which clients wanted more than was recorded.
        wanted_more: Whether they ever did.
        may_have_wanted_more: Whether they ever did, or it is not known.
        before: Of each part under its own limit.
        observed_ms: For how long the broker was seen to throttle each part; ``None`` = not recorded.
        after: Of the sum of the parts under the limit to come; ``None`` where the answer allows no figure.
    """

    kind: QuotaType
    samples: int
    covered_ms: int
    censored_ms: int
    wanted_more: bool
    may_have_wanted_more: bool
    before: tuple[Forecast, ...]
    observed_ms: tuple[int | None, ...]
    after: Forecast | None


def weighed(
    answer: Answer, limits: Sequence[int | None], limit: int | None, facts: Facts
) -> Impact:
    """The verdict on what was found.

    Args:
        answer: How far the parts say what the bucket will use.
        limits: Of the parts today, in units; ``None`` = unlimited.
        limit: To come.
        facts: Of the parts, in the order of ``limits``, and of their sum.
    """
    longest = max(facts.before, key=_length, default=None)
    judged: Judged
    if not facts.samples or longest is None or answer is Answer.NO_DATA:
        judged = Verdict.NO_DATA, Bound.EXACT, None
    elif answer is Answer.NOT_IDENTIFIABLE or facts.after is None:
        judged = Verdict.NOT_IDENTIFIABLE, Bound.EXACT, None
    elif answer is Answer.BOUND:
        judged = _by_bound(facts, limit, facts.after)
    else:
        went = move(limits[0], limit) if len(limits) == 1 else None
        judged = _exactly(facts, limit, longest, facts.after, went)
    verdict, bound, figure = judged
    return Impact(
        verdict=verdict,
        bound=bound,
        before=longest,
        observed_throttled_ms=max(
            (one for one in facts.observed_ms if one is not None), default=None
        ),
        after=figure,
        covered_ms=facts.covered_ms,
        censored_ms=facts.censored_ms,
    )


Judged: TypeAlias = tuple[Verdict, Bound, Forecast | None]
"""Verdict, what the figure is to the truth, and the figure."""


def _exactly(
    facts: Facts, limit: int | None, before: Forecast, after: Forecast, went: Move | None
) -> Judged:
    """The series is the bucket's own. Under a looser limit a censored one says "better" and no number."""
    if went is Move.LOOSER and limit is not None and facts.wanted_more:
        return Verdict.BETTER, Bound.AT_MOST, None
    slower = facts.kind in GET_LESS and after.delayed_units > 0
    low = limit is not None and (after.is_lower_bound or facts.may_have_wanted_more or slower)
    return compared(before, after), Bound.AT_LEAST if low else Bound.EXACT, after


def _by_bound(facts: Facts, limit: int | None, after: Forecast) -> Judged:
    """Safe if even all of it together would not be throttled; a sum of censored rates bounds nothing."""
    bounded = limit is None or not facts.may_have_wanted_more
    if bounded and not after.throttled_ms and not after.is_lower_bound:
        return Verdict.SAFE_BY_BOUND, Bound.AT_MOST, after
    return Verdict.NOT_IDENTIFIABLE, Bound.AT_MOST, None


def _length(forecast: Forecast) -> tuple[int, int]:
    return forecast.throttled_ms, forecast.max_delay_ms or 0


def compared(before: Forecast, after: Forecast) -> Verdict:
    """Better or worse only by more than a minute a day and more than a tenth; anything less is the same."""
    more = after.throttled_ms - before.throttled_ms
    if abs(more) * MINUTES_PER_DAY <= after.covered_ms or abs(more) * 10 <= before.throttled_ms:
        return Verdict.SAME
    return Verdict.WORSE if more > 0 else Verdict.BETTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How much worse a change may make it for a tier of clients.

    Attributes:
        new_throttled_ms_per_day: Additional throttled time per day; ``None`` = any.
        max_delay_ms: The worst delay; ``None`` = any.
        elastic: Clients that catch up with what waits for them, like consumers: reported, never refused.
    """

    new_throttled_ms_per_day: int | None = None
    max_delay_ms: int | None = None
    elastic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One figure beyond what is tolerated, both in milliseconds (per day where it is a time)."""

    what: str
    found_ms: int
    allowed_ms: int


def breaches(one: Impact, tolerance: Tolerance) -> tuple[Breach, ...]:
    """What a policy refuses about an impact.

    Only what the change makes worse, and only figures: an impact that cannot be told is printed, not refused, and
    neither is an approximate one. Otherwise the gate would be switched off in its first week.
    """
    before, after = one.before, one.after
    if tolerance.elastic or one.verdict is not Verdict.WORSE or before is None or after is None:
        return ()
    if after.model is Model.APPROXIMATE:
        return ()
    found: list[Breach] = []
    daily = (after.throttled_ms - before.throttled_ms) * DAY_MS // max(1, after.covered_ms)
    allowed = tolerance.new_throttled_ms_per_day
    if allowed is not None and daily > allowed:
        found.append(Breach(what="newly throttled per day", found_ms=daily, allowed_ms=allowed))
    worst, allowed = after.max_delay_ms or 0, tolerance.max_delay_ms
    if allowed is not None and worst > max(allowed, before.max_delay_ms or 0):
        found.append(Breach(what="worst delay", found_ms=worst, allowed_ms=allowed))
    return tuple(found)
