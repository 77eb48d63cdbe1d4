"""One pair through all histories: the laws hold in every state, and each law detects a broken variant."""

import os
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Unknown
from reconciler.quota.ownership import (
    Intent,
    IntentEnded,
    OverrideEnded,
    Owner,
    OwnershipRecords,
    RecordChange,
    Recorded,
)
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause, DriftMode, Policy, Rules
from reconciler.quota.results.report import PairOutcome
from tests.small_worlds.pair_world import (
    ALICE,
    DOCUMENT,
    RATE,
    LawViolated,
    PairState,
    Product,
    Value,
    actions,
    desired_of,
    explore,
    owned_of,
)

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
MOST_STATES = 20_000
DEEP_STATES = {False: 3_000_000, True: 200_000}
"""With `make small-worlds`, by whether values can end (an override, or a document with an end).

Without an end the world is searched completely, with one in part: three million states are not all of them.
"""
RULES = {
    policy.value: Rules(policy=policy, sync_confirmed=True, drift=DriftMode.CORRECT)
    for policy in Policy
}


@pytest.mark.parametrize(
    ("overrides", "raises"),
    [(False, False), (False, True), (True, False), (True, True)],
    ids=["faults", "documents with an end", "overrides", "both"],
)
@pytest.mark.parametrize("policy", list(RULES))
def test_the_laws_hold_in_all_histories_of_a_pair(policy, overrides, raises):
    has_ends = overrides or raises
    most = DEEP_STATES[has_ends] if DEEP else MOST_STATES
    exploration = explore(
        Product(RULES[policy]), overrides=overrides, raises=raises, most_states=most
    )
    is_part = has_ends or not DEEP
    assert exploration.complete or (is_part and exploration.states >= most)


class RemovesWhatOthersChanged(Product):
    def plan(self, state: PairState, live: Value) -> Plan:
        plan = super().plan(state, live)
        removals = tuple(
            QuotaChange(entity=ALICE, key=RATE, before=live, after=None, cause=Cause.PRUNE)
            for finding in plan.findings
            if finding.cause is Cause.CHANGED_BY_ANOTHER
        )
        return replace(plan, changes=(*plan.changes, *removals))


class RecordsWithoutLooking(Product):
    def plan(self, state: PairState, live: Value) -> Plan:
        plan = super().plan(state, live)
        owner = next((change.owner for change in plan.changes if change.after is not None), None)
        if owner is None:
            return plan
        value = plan.changes[0].after
        assert value is not None
        record = Recorded(entity=ALICE, key=RATE, value=value, owner=owner)
        return replace(plan, changes=(), bookkeeping=(record,))


class BelievesOldIntents(Product):
    """A broken variant in which an intent whose write was not executed stays forever."""

    def plan(self, state: PairState, live: Value) -> Plan:
        plan = super().plan(state, live)
        return replace(
            plan,
            changes=tuple(change for change in plan.changes if not owned_of(state).intents),
            bookkeeping=tuple(
                change for change in plan.bookkeeping if not isinstance(change, IntentEnded)
            ),
        )


class EndsEveryIntent(Product):
    """A broken variant in which every describe ends the intents, also those of a process that lost its Lease."""

    def plan(self, state: PairState, live: Value) -> Plan:
        plan = super().plan(state, live)
        ended = tuple(
            IntentEnded(entity=subject, key=key) for subject, key in owned_of(state).intents
        )
        return replace(plan, bookkeeping=(*plan.bookkeeping, *ended))


class TakesUnknownForApplied(Product):
    """A broken variant in which a request without a response counts as executed."""

    def results(
        self, pairs: tuple[PairOutcome, ...], waiting: Mapping[tuple[Entity, Key], Intent]
    ) -> tuple[RecordChange, ...]:
        return tuple(
            Recorded(entity=ALICE, key=RATE, value=pair.change.after, owner=pair.change.owner)
            for pair in pairs
            if isinstance(pair.result, Unknown) and pair.change.after and pair.change.owner
        ) or super().results(pairs, waiting)


class RemovesDeclaredValues(Product):
    def plan(self, state: PairState, live: Value) -> Plan:
        plan = super().plan(state, live)
        if (
            live is None
            or plan.changes
            or desired_of(state.declared, state.policy, state.suspended).limits == {}
        ):
            return plan
        removal = QuotaChange(entity=ALICE, key=RATE, before=live, after=None, cause=Cause.PRUNE)
        return replace(plan, changes=(removal,))


class ForgetsDeletions(Product):
    def plan(self, state: PairState, live: Value) -> Plan:
        plan = super().plan(state, live)
        return replace(
            plan, changes=tuple(change for change in plan.changes if change.after is not None)
        )


@pytest.mark.parametrize(
    ("twin", "law"),
    [
        (RemovesWhatOthersChanged, "which is not ours"),
        (RecordsWithoutLooking, "is recorded and"),
        (BelievesOldIntents, "an intent never ends"),
        (EndsEveryIntent, "ends, and its write may still land"),
        (RemovesDeclaredValues, "a declared value is removed"),
        (ForgetsDeletions, "stays although its document was deleted"),
        (TakesUnknownForApplied, "which is not ours"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_faulty_variant_is_detected_with_its_shortest_history(twin, law):
    with pytest.raises(LawViolated, match=law):
        explore(twin(RULES["Sync"]))


class PrunesWhereAnOverrideEnds(Product):
    """A broken variant in which a limit that is not declared any more is removed, in place of the end of its override."""

    def plan(self, state: PairState, live: Value) -> Plan:
        plan = super().plan(state, live)
        if not plan.changes or plan.changes[0].claim is not None or state.suspended:
            return plan
        (change,) = plan.changes
        if change.cause is not Cause.ENDED:
            return plan
        removal = replace(change, after=None, cause=Cause.PRUNE)
        ended = OverrideEnded(entity=ALICE, key=RATE)
        return replace(plan, changes=(removal,), bookkeeping=(*plan.bookkeeping, ended))


class KeepsOverridesThatAGuardRefuses(Product):
    def without_refused(self, plan: Plan, owned: OwnershipRecords) -> Plan:
        return replace(plan, changes=())


class RecordsWhatAnOverrideWrites(Product):
    """A broken variant with one layer: the value of an override replaces the record."""

    def results(
        self, pairs: tuple[PairOutcome, ...], waiting: Mapping[tuple[Entity, Key], Intent]
    ) -> tuple[RecordChange, ...]:
        above = tuple(
            Recorded(
                entity=ALICE, key=RATE, value=pair.change.after, owner=Owner(document=DOCUMENT)
            )
            for pair in pairs
            if pair.change.is_temporary and pair.change.after
        )
        return (*above, *super().results(pairs, waiting))


class BeginsWithoutBase(Product):
    """A broken variant in which the value from before an override is forgotten."""

    def plan(self, state: PairState, live: Value) -> Plan:
        plan = super().plan(state, live)
        changes = tuple(
            replace(change, after=None)
            if change.keeps_record and change.cause is Cause.ENDED
            else change
            for change in plan.changes
        )
        return replace(plan, changes=changes)


@pytest.mark.parametrize(
    ("twin", "law"),
    [
        (PrunesWhereAnOverrideEnds, "which is not ours"),
        (KeepsOverridesThatAGuardRefuses, "an override that has ended stays recorded"),
        (RecordsWhatAnOverrideWrites, "the record below an override changed"),
        (BeginsWithoutBase, "follows an override"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_faulty_end_of_an_override_is_detected(twin, law):
    product = twin(RULES["Sync"])
    overridden = actions(product, overrides=True)["override 2.0 False"](PairState(live=1.0))
    with pytest.raises(LawViolated, match=law):
        explore(product, overrides=True, first=overridden)
