"""Whether a plan still has the effect that was approved, and what differs if not: the rows of two plans are compared."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from msgspec.structs import replace

from reconciler.base.escaping import escaped
from reconciler.errors import StalePlan
from reconciler.quota.entity import entity_text
from reconciler.quota.keys import Key, same_value
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.effects import Fallback, fallbacks
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.effect_digest import facts_of
from reconciler.quota.results.report import Preview
from reconciler.quota.state import QuotaState
from reconciler.render.units import age, instant, limit

SavedPlan = Preview
"""The type that ``reconciler.codecs.plan.read_plan`` returns."""

MAX_AGE_SECONDS: Final = 86_400.0
"""Maximum age of a reviewed plan: one day."""

AHEAD_SECONDS: Final = 600.0
"""How far the clock of the machine that created a plan may be ahead of the local clock; the same as for evidence."""

SHOWN_DIFFERENCES: Final = 50

Row = TypeVar("Row", bound=QuotaChange | Fallback)


def check_approved(
    saved: SavedPlan,
    recomputed: Preview,
    *,
    now: float,
    max_age: float = MAX_AGE_SECONDS,
    digest: str | None = None,
) -> None:
    """Check that a plan recomputed from the current documents, records and limits has the effect of the saved one.

    Args:
        saved: The reviewed plan.
        recomputed: The plan that would be applied.
        now: Seconds since the epoch.
        max_age: Maximum age of the saved plan, in seconds.
        digest: The approved digest (``--expect-digest``); ``None`` = that of ``saved``.

    Raises:
        StalePlan: The effect differs, or the plan is too old or from the future; the error lists all differences.
    """
    mismatches: list[str] = []
    if now - saved.created_at > max_age:
        mismatches.append(
            f"the plan is {age(now - saved.created_at)} old; {age(max_age)} is allowed (--max-age)"
        )
    if saved.created_at > now + AHEAD_SECONDS:
        mismatches.append(
            f"the creation time of the plan is {age(saved.created_at - now)} in the future: check the clocks of both machines"
        )
    if digest not in {None, saved.digest}:
        mismatches.append(f"the saved plan has digest {saved.digest}, approved was {digest}")
    if saved.plan.cluster_id != recomputed.plan.cluster_id:
        mismatches.append(
            (
                f"the plan is for cluster {saved.plan.cluster_id}"
                if saved.plan.cluster_id
                else "the plan was made offline and names no cluster"
            )
            + f", the current cluster is {recomputed.plan.cluster_id}"
        )
    elif (approved := _without_ended(saved, recomputed.plan)).digest != recomputed.digest:
        mismatches.extend(
            differences(approved.plan, recomputed.plan, (saved.fallbacks, recomputed.fallbacks))
            or ["their digests differ"]
        )
        if recomputed.plan.removals_known and not saved.plan.removals_known:
            mismatches.append(
                "the reviewed plan was made without the ownership records of this run:"
                " planning and applying need the same records (inventory.gitRef, or a file outside of the checkout)"
            )
    if mismatches:
        raise _stale("the reviewed plan no longer fits", mismatches)


def _without_ended(saved: SavedPlan, current: Plan) -> SavedPlan:
    """Return the saved plan without what documents declared whose end came since: no end makes a review stale."""
    if not current.ended:
        return saved
    changes = tuple(
        change
        for change in saved.plan.changes
        if change.cause is not Cause.TEMPORARY or change.document not in current.ended
    )
    return replace(saved, plan=replace(saved.plan, changes=changes))


def check_digest(plan: Preview, expected: str) -> None:
    """Check that a plan that was not saved has the approved digest.

    Raises:
        StalePlan: The digest differs.
    """
    if plan.digest != expected:
        raise _stale(
            "the plan is not the approved one",
            [f"its digest is {plan.digest}, approved was {expected}"],
        )


def differences(
    before: Plan, after: Plan, relied_on: tuple[Iterable[Fallback], Iterable[Fallback]]
) -> list[str]:
    """Return one line for each row that is not in both plans: operations, and limits that removals rely on.

    Args:
        before: The earlier plan.
        after: The later plan.
        relied_on: The limits that removals of both rely on.
    """
    reported = {finding.pair: finding for finding in after.findings}
    lines = [
        f"{_text(pair)}: {_operation_difference(then, now, reported.get(pair))}"
        for pair, then, now in _different(before.reviewed, after.reviewed)
    ]
    removed = [{row.pair for row in plan.reviewed if row.removes} for plan in (before, after)]
    for pair, then, now in _different(*relied_on) if removed[0] == removed[1] else ():
        old, new = (_live(pair[1], None if row is None else row.value) for row in (then, now))
        lines.append(
            f"{_text(pair)}: live was {old}, is {new}; clients of a removal fall back to it"
        )
    return lines


def written_differences(
    before: Plan, after: Plan, live: tuple[QuotaState, QuotaState]
) -> list[str]:
    """Return what differs in the rows that the earlier plan writes, whatever else the later one would write.

    Of an override live value and cause are compared: guards may have replaced the value of its end.

    Args:
        before: The earlier plan, perhaps without withheld changes.
        after: The later plan.
        live: The live limits below overrides, when both were computed.
    """
    pairs = {change.pair for change in before.reviewed}
    same_pairs = replace(
        after,
        changes=tuple(change for change in after.changes if change.pair in pairs),
        pending=tuple(change for change in after.pending if change.pair in pairs),
    )
    then, now = (fallbacks(before.reviewed, state) for state in live)
    lines = differences(before, same_pairs, (then, now))
    temporary = {change.pair: change for change in after.changes if change.is_temporary}
    for change in before.changes:
        if not change.is_reviewed:
            current = temporary.get(change.pair)
            if (
                current is None
                or current.cause is not change.cause
                or not same_value(change.key, current.before, change.before)
            ):
                lines.append(
                    f"{_text(change.pair)}: {_operation_difference(change, current, None)}"
                )
    return lines


def _operation_difference(
    then: QuotaChange | None, now: QuotaChange | None, finding: Finding | None
) -> str:
    if then is not None and now is not None:
        key = now.key
        facts = (
            ("live was {}, is {}", _live(key, then.before), _live(key, now.before)),
            ("reviewed {}, now {}", _effect(then), _effect(now)),
            ("its document was {}, is {}", _document(then), _document(now)),
            ("its cause was {}, is {}", then.cause, now.cause),
            ("its end was {}, is {}", _end(then), _end(now)),
        )
        return "; ".join(words.format(old, new) for words, old, new in facts if old != new)
    reason = (
        "" if finding is None else f" ({finding.cause}, live is {_live(finding.key, finding.live)})"
    )
    return f"reviewed {_effect(then)}, now {_effect(now)}{reason}"


def _different(
    before: Iterable[Row], after: Iterable[Row]
) -> Iterator[tuple[Pair, Row | None, Row | None]]:
    """Yield the pairs whose rows differ, with both rows, in the order of the first ones."""
    earlier, later = ({_row_key(row): row for row in rows} for rows in (before, after))
    for pair, is_temporary in dict.fromkeys([*earlier, *later]):
        then, now = earlier.get((pair, is_temporary)), later.get((pair, is_temporary))
        if then is None or now is None or facts_of(then) != facts_of(now):
            yield pair, then, now


def _row_key(row: QuotaChange | Fallback) -> tuple[Pair, bool]:
    """Return what one row has at most: a document with an end has one beside that of the document below it."""
    return (row.entity, row.key), isinstance(row, QuotaChange) and row.cause is Cause.TEMPORARY


def _text(pair: Pair) -> str:
    return f"{entity_text(pair[0])} {pair[1]}"


def _live(key: Key, value: float | None) -> str:
    return "not set" if value is None else limit(key, value)


def _effect(change: QuotaChange | None) -> str:
    if change is None:
        return "nothing"
    return "remove" if change.after is None else f"set {limit(change.key, change.after)}"


def _end(change: QuotaChange) -> str:
    until = None if change.claim is None else change.claim.until
    return "never" if until is None else instant(until)


def _document(change: QuotaChange) -> str:
    return escaped(change.document) or "no document"


def _stale(message: str, mismatches: list[str]) -> StalePlan:
    extra_count = len(mismatches) - SHOWN_DIFFERENCES
    displayed = mismatches[:SHOWN_DIFFERENCES] + (
        [f"and {extra_count} more"] if extra_count > 0 else []
    )
    return StalePlan(message, differences=displayed, hint="plan again and have it reviewed again")
