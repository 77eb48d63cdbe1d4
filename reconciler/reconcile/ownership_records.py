"""Record changes of a run: an intent per change before sending, its result after verification, and drift times."""

from collections.abc import Collection, Iterable

from msgspec import UNSET
from msgspec.structs import replace

from reconciler.quota.ownership import (
    NOBODY,
    DriftObserved,
    Intent,
    IntentEnded,
    IntentStarted,
    Orphaned,
    OverrideEnded,
    OverrideSet,
    OverrideWritten,
    Owner,
    OwnershipRecords,
    Pair,
    ProjectNamed,
    RecordChange,
    RecordDropped,
    Recorded,
    pair_of,
)
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Outcome, PairOutcome, PairVisibility
from reconciler.quota.state import Applied, Rejected, Unknown


def intents(changes: Iterable[QuotaChange], *, until: float) -> tuple[RecordChange, ...]:
    """Return one intent per change, so that a crash after this point loses no ownership.

    Args:
        until: When the changes are sent at the latest, in seconds since the epoch.
    """
    return tuple(
        IntentStarted(
            entity=change.entity,
            key=change.key,
            intent=Intent(
                value=change.after,
                owner=NOBODY if change.keeps_record else change.owner or NOBODY,
                at=until,
            ),
        )
        for change in changes
    )


def results(
    pairs: Iterable[PairOutcome], *, waiting: Collection[Pair] = (), until: float
) -> tuple[RecordChange, ...]:
    """Return the record changes for results that are certain. Other changes have an intent for the next observation.

    An intent ends only with certainty. Ending it after an unknown result would lose the ownership of a value that took
    effect; recording the value after a rejection would claim a value that was never written.

    Args:
        waiting: Pairs that an earlier run wrote and whose write may still take effect: their intents end only with a
            result.
        until: When the changes were sent at the latest, in seconds since the epoch.
    """
    record_changes: list[RecordChange] = []
    for pair in pairs:
        record_changes.extend(_result(pair, waiting, until))
    return tuple(record_changes)


def restore(
    pair: Pair,
    value: float | None,
    owner: Owner | None,
    *,
    is_orphaned: bool,
    intent: Intent | None,
) -> tuple[RecordChange, ...]:
    """Return the changes after which the record of a pair is as it was, whatever it is now; without an owner there was none.

    A write that may still take effect, the intent, is not forgotten.
    """
    entity, key = pair
    changes: list[RecordChange] = [
        RecordDropped(entity=entity, key=key)
        if value is None or owner is None
        else Recorded(entity=entity, key=key, value=value, owner=owner)
    ]
    if is_orphaned:
        changes.append(Orphaned(entity=entity, key=key))
    if intent is not None:
        changes.append(IntentStarted(entity=entity, key=key, intent=intent))
    return tuple(changes)


def changes_with_base(
    changes: Iterable[QuotaChange], begun: Iterable[RecordChange], owned: OwnershipRecords
) -> tuple[QuotaChange, ...]:
    """Return the changes of an outcome with the records from before the run, which a rollback restores.

    Args:
        begun: The record changes of overrides that begin or end with the run; the plan was computed after them.
        owned: The records before the run.
    """
    overrides = owned.overrides
    pairs = {pair_of(item) for item in begun if not isinstance(item, ProjectNamed)}
    return tuple(
        replace(
            change,
            applied=owned.applied_value(pair),
            recorded=owned.owner_of(pair),
            is_orphaned=pair in owned.orphaned,
            returning=overrides[pair].before if pair in overrides else UNSET,
        )
        if (pair := change.pair) in pairs or pair in overrides
        else change
        for change in changes
    )


def refused_overrides(
    outcome: Outcome,
    begun: Iterable[RecordChange],
    owned: OwnershipRecords,
    *,
    was_sent: bool = True,
) -> tuple[RecordChange, ...]:
    """Return what takes back overrides that began with a run and whose value the cluster rejected, or that sent nothing.

    Otherwise every later run would send the rejected value again, and fail, until the override ends; and it would begin an
    override of which the command said that nothing was sent.

    Args:
        begun: The record changes of overrides that began or ended with the run.
        owned: The records before the run: an override that the rejected one replaced is in force again.
        was_sent: Whether the run sent something, or had nothing to send.
    """
    rejected = {
        pair.change.pair
        for pair in outcome.pairs
        if isinstance(pair.result, Rejected) and pair.change.cause is Cause.OVERRIDE
    }
    begun = tuple(begun)
    rolled_back = {
        (change.entity, change.key)
        for change in begun
        if isinstance(change, Recorded | RecordDropped)
    }
    record_changes: list[RecordChange] = []
    for change in begun:
        if not isinstance(change, OverrideSet):
            continue
        override, pair = change.override, change.override.pair
        if pair not in rejected and (was_sent or override.until <= outcome.started_at):
            continue
        if pair in rolled_back:
            record_changes.extend(
                restore(
                    pair,
                    owned.applied_value(pair),
                    owned.owner_of(pair),
                    is_orphaned=pair in owned.orphaned,
                    intent=owned.intents.get(pair),
                )
            )
        earlier = owned.overrides.get(pair)
        record_changes.append(
            OverrideEnded(entity=override.entity, key=override.key)
            if earlier is None
            else OverrideSet(override=earlier)
        )
    return tuple(record_changes)


def _result(pair: PairOutcome, waiting: Collection[Pair], until: float) -> tuple[RecordChange, ...]:
    change, result = pair.change, pair.result
    if not isinstance(result, Applied | Unknown):
        if change.pair in waiting:
            return ()
        return (IntentEnded(entity=change.entity, key=change.key),)
    # What was acknowledged was written; a later change by another writer is drift.
    is_written = pair.visibility is PairVisibility.VISIBLE or (
        pair.visibility is PairVisibility.CHANGED and isinstance(result, Applied)
    )
    return _records_of_applied(change) if is_written else intents([change], until=until)


def _records_of_applied(change: QuotaChange) -> tuple[RecordChange, ...]:
    entity, key, value = change.entity, change.key, change.after
    record: tuple[RecordChange, ...] = ()
    if change.keeps_record:
        record = (OverrideWritten(entity=entity, key=key, value=value),)
    elif value is None:
        record = (RecordDropped(entity=entity, key=key),)
    elif change.owner is not None:
        record = (Recorded(entity=entity, key=key, value=value, owner=change.owner),)
    return (*record, OverrideEnded(entity=entity, key=key)) if change.ends_layer else record


def drift_times(plan: Plan, owned: OwnershipRecords) -> tuple[DriftObserved, ...]:
    """Return first-seen times of drift that is only reported, and the end of drift that is over.

    Drift that is about to be corrected ends when the correction is recorded, not before.
    """
    drifting: dict[tuple[object, object], Finding] = {
        finding.pair: finding for finding in plan.findings_for(Cause.DRIFT) if not finding.ignored
    }
    begun = [
        DriftObserved(entity=finding.entity, key=finding.key, at=finding.since)
        for finding in drifting.values()
        if finding.pair not in owned.drift_since
    ]
    corrected = {change.pair for change in plan.changes if change.cause is Cause.DRIFT}
    over = [
        DriftObserved(entity=pair[0], key=pair[1], at=None)
        for pair in owned.drift_since
        if pair not in drifting and pair not in corrected
    ]
    return (*begun, *over)
