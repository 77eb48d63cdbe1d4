"""What the inventory is told: an intent per change before sending, its result after looking, and nothing twice."""

from collections.abc import Collection, Iterable

from reconciler.quota.change import Change, Finding, Plan
from reconciler.quota.outcome import Applied, Unknown
from reconciler.quota.owned import (
    DriftSeen,
    Dropped,
    Intend,
    Intent,
    IntentEnded,
    OverrideEnded,
    Owned,
    Owner,
    Pair,
    RecordChange,
    Recorded,
)
from reconciler.quota.policy import Cause
from reconciler.quota.report import PairOutcome, Seen


def intents(changes: Iterable[Change], *, now: float) -> tuple[RecordChange, ...]:
    """One intent per change, so that a crash from here on loses no ownership."""
    return tuple(
        Intend(
            entity=change.entity,
            key=change.key,
            intent=Intent(value=change.after, owner=change.owner or Owner(document=""), at=now),
        )
        for change in changes
    )


def results(
    pairs: Iterable[PairOutcome], *, now: float, waiting: Collection[Pair] = ()
) -> tuple[RecordChange, ...]:
    """What is certain about each change. What is not keeps its intent, and the next look decides.

    Args:
        pairs: What became of each change.
        now: Seconds since the epoch.
        waiting: Pairs that an earlier run wrote and whose write may still land: their intents end only with a result.
    """
    made: list[RecordChange] = []
    for pair in pairs:
        made.extend(_result(pair, now, waiting))
    return tuple(made)


def _result(pair: PairOutcome, now: float, waiting: Collection[Pair]) -> Iterable[RecordChange]:
    subject, key = pair.change.entity, pair.change.key
    if not isinstance(pair.result, Applied | Unknown):
        if (subject, key) not in waiting:
            yield IntentEnded(entity=subject, key=key)
    elif pair.seen is Seen.VISIBLE:
        yield from _landed(pair.change, now)
    elif isinstance(pair.result, Applied) and pair.seen is Seen.CHANGED:
        # It was acknowledged; what another writer made of it afterwards is drift.
        yield from _landed(pair.change, now)


def _landed(change: Change, now: float) -> Iterable[RecordChange]:
    expired = change.cause is Cause.OVERRIDE_EXPIRED
    # What an override replaced and nobody declares was never ours.
    ours = not (expired and change.claim is None)
    if change.after is None or not ours:
        yield Dropped(entity=change.entity, key=change.key)
    else:
        owner = change.owner or Owner(document="", since=now)
        yield Recorded(entity=change.entity, key=change.key, value=change.after, owner=owner)
    if expired:
        yield OverrideEnded(entity=change.entity, key=change.key)


def drift_times(plan: Plan, owned: Owned) -> tuple[RecordChange, ...]:
    """First-seen times of drift that is only reported, and the end of drift that is over.

    Drift that is about to be corrected is over once the correction is recorded, not before.
    """
    drifting: dict[tuple[object, object], Finding] = {
        (one.entity, one.key): one for one in plan.found(Cause.DRIFT) if not one.ignored
    }
    begun = [
        DriftSeen(entity=one.entity, key=one.key, at=one.since)
        for one in drifting.values()
        if (one.entity, one.key) not in owned.drift_since
    ]
    corrected = {(one.entity, one.key) for one in plan.changes if one.cause is Cause.DRIFT}
    over = [
        DriftSeen(entity=pair[0], key=pair[1], at=None)
        for pair in owned.drift_since
        if pair not in drifting and pair not in corrected
    ]
    return (*begun, *over)
