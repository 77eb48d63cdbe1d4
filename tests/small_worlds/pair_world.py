"""All histories of one pair: documents, records, brokers, writes without response, another writer, crashes, overrides.

Breadth first; a state is visited once. Time is reduced to two distinctions: an intent is new or older than 65 s, an
override is in effect or ended. Everything between two actions is the product's code: comparison, settlement of
intents, held changes, record changes.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    NO_RECORD,
    SETTLING_SECONDS,
    Intent,
    IntentEnded,
    IntentStarted,
    Orphaned,
    OverrideEnded,
    OverrideSet,
    Owner,
    OwnershipRecords,
    RecordChange,
    Recorded,
)
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.intent_settlement import has_landed, settle_intents
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.send_order import SendSchedule
from reconciler.quota.planner.temporary_limits import without_refused
from reconciler.quota.policy import Cause, DeletionPolicy, DriftMode, Policy, Rules
from reconciler.quota.results.report import PairOutcome, Visibility
from reconciler.quota.state import (
    Alteration,
    Applied,
    Held,
    QuotaState,
    Rejected,
    Result,
    Unknown,
    limits_of,
)
from reconciler.reconcile import ownership_records
from reconciler.reconcile.ownership_records import restore
from reconciler.reconcile.verification import judge
from tests.policies import CHANGING, REMOVING

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
PAIR, COLUMN = (ALICE, RATE), COLUMN_OF[RATE]
DOCUMENT, RAISE = "team/alice", "team/raise"
VALUES: tuple[float | None, ...] = (None, 1.0, 2.0)
NOW = 1_000.0
FRESH, OLD = NOW, NOW - SETTLING_SECONDS - 1.0
SEEN = Visibility(visible=(1,), lagging=(), unreachable={})
REFUSED = Rejected(code=42, name="INVALID_REQUEST", message="no")
LOST = Unknown(reason="no answer")

Value: TypeAlias = float | None


class PairState(Struct, frozen=True, gc=False):
    """The part of a state that determines its future, and the memory of the oracle."""

    declared: Value = None  # declared value; None = there is no document
    policy: DeletionPolicy | None = None  # its deletionPolicy
    suspended: bool = False  # whether it is suspended
    raised: Value = (
        None  # the value of the document with an end; None = there is none, or it has ended
    )
    live: Value = None  # value on the brokers
    changes: tuple[RecordChange, ...] = ()  # the records, as a minimal list of changes
    # The value of the last request that may still be executed, if there is one.
    late: frozenset[Value] = frozenset()
    # Live values that the product wrote, or that were declared while they were live.
    own_values: frozenset[Value] = frozenset()
    # Intended values that no describe contradicted 65 s or more after the intent.
    open: frozenset[Value] = frozenset()


NOTHING = PairState()


class LawViolated(Exception):
    """A history that violates a law; the message ends with its actions."""


def owned_of(state: PairState) -> OwnershipRecords:
    return _owned(state.changes)


@cache
def _owned(changes: tuple[RecordChange, ...]) -> OwnershipRecords:
    return replace(OwnershipRecords(cluster_id="c").with_changes(changes), is_known=True)


def canonical(owned: OwnershipRecords) -> tuple[RecordChange, ...]:
    """Records as a minimal list of changes, with times that are either new or old."""
    return tuple(_changes_of(owned))


def _changes_of(owned: OwnershipRecords) -> Iterator[RecordChange]:
    record = owned.records.get(ALICE, NO_RECORD)
    owner = record.owners[COLUMN]
    if owner is not None:
        value = record.applied[COLUMN]
        assert value is not None
        yield Recorded(entity=ALICE, key=RATE, value=value, owner=_timeless(owner))
    intent = owned.intents.get(PAIR)
    if intent is not None:
        at = FRESH if intent.may_still_land(NOW) else OLD
        canonical_intent = Intent(value=intent.value, owner=_timeless(intent.owner), at=at)
        yield IntentStarted(entity=ALICE, key=RATE, intent=canonical_intent)
    if PAIR in owned.orphaned:
        yield Orphaned(entity=ALICE, key=RATE)
    override = owned.overrides.get(PAIR)
    if override is not None:
        # Only a rollback looks at what was declared when it began.
        declared = override.declared if override.ends_with_document else None
        yield OverrideSet(override=replace(override, declared=declared))


def _timeless(owner: Owner) -> Owner:
    return replace(owner, since=0.0) if owner.since else owner


@cache
def desired_of(
    declared: Value, policy: DeletionPolicy | None, suspended: bool, raised: Value = None
) -> DesiredState:
    documents: list[Declaration] = []
    if declared is not None:
        documents.append(
            Declaration(
                document=DOCUMENT,
                entity=ALICE,
                limits=limits_of({RATE: declared}),
                deletion_policy=policy,
                suspended=suspended,
            )
        )
    if raised is not None:
        limits = limits_of({RATE: raised})
        documents.append(Declaration(document=RAISE, entity=ALICE, limits=limits, until=NOW + 1.0))
    return merge(documents)


@cache
def live_of(value: Value) -> QuotaState:
    return QuotaState() if value is None else QuotaState(limits={ALICE: limits_of({RATE: value})})


FATES = (
    "answered",
    "crash before sending",
    "crash after sending",
    "lost",
    "lost but applied",
    "lost and late",
    "lease lost",
    "rejected",
    "refused by a guard",
    "held",
)
"""The possible outcomes of the one request of a run. A process that loses its Lease after it sent the request records no
result, and the request may be executed while its successor runs. A request is held by another limit that is refused."""

CERTAIN_FATES = tuple(fate for fate in FATES if not fate.startswith(("lost", "lease lost")))
"""Outcomes after which no request is on its way."""

ENDING_FATES = frozenset({"answered", "refused by a guard", "held"})
"""Outcomes after which no ended override is left: neither a guard nor another limit keeps one."""


class Product:
    """One run of the product's functions. A broken variant overrides one of the steps.

    Args:
        rules: Configuration of the run.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._begins_at: PairState | None = None
        self._begun: dict[bool, BegunRun] = {}

    def planned(self, state: PairState, live: Value) -> Plan:
        """Return the plan, computed once for each combination of documents, records and live value."""
        inputs = state.declared, state.policy, state.suspended, state.raised, state.changes, live
        plan = self._plans.get(inputs)
        if plan is None:
            plan = self._plans[inputs] = self.plan(state, live)
        return plan

    def plan(self, state: PairState, live: Value) -> Plan:
        return compare(
            desired=desired_of(state.declared, state.policy, state.suspended, state.raised),
            owned=owned_of(state),
            live=live_of(live),
            rules=self.rules,
            now=NOW,
        )

    def unsettled(
        self, owned: OwnershipRecords, live: Value
    ) -> Mapping[tuple[Entity, Key], Intent]:
        return {
            pair: intent
            for pair, intent in owned.intents.items()
            if intent.may_still_land(NOW) and not has_landed(pair, intent, live_of(live))
        }

    def intents(self, changes: tuple[QuotaChange, ...]) -> tuple[RecordChange, ...]:
        return ownership_records.intents(changes, until=NOW)

    def waits(
        self, changes: tuple[QuotaChange, ...], waiting: Mapping[tuple[Entity, Key], Intent]
    ) -> bool:
        """Whether the change waits for an earlier write."""
        schedule = SendSchedule(changes, live=QuotaState())
        for (subject, key), intent in waiting.items():
            if changes[0].after != intent.value:
                schedule.settle(Alteration(subject, ((str(key), intent.value),)), LOST)
        return bool(schedule.find_held(schedule.batches[0]))

    def results(
        self, pairs: tuple[PairOutcome, ...], waiting: Mapping[tuple[Entity, Key], Intent]
    ) -> tuple[RecordChange, ...]:
        return ownership_records.results(pairs, waiting=waiting, until=NOW)

    def without_refused(self, plan: Plan, owned: OwnershipRecords) -> Plan:
        """Return the plan if a guard refuses every change that guards judge."""
        return without_refused(plan, plan.reviewed, owned, now=NOW)

    def begin(self, state: PairState, *, is_refused: bool) -> "BegunRun":
        """Describe, plan and record the intents; runs of one state begin in the same way."""
        if state is not self._begins_at:
            self._begins_at, self._begun = state, {}
        if is_refused not in self._begun:
            self._begun[is_refused] = self._begin(state, is_refused=is_refused)
        return self._begun[is_refused]

    def _begin(self, state: PairState, *, is_refused: bool) -> "BegunRun":
        owned, described = owned_of(state), state.live
        plan = self.planned(state, described)
        if is_refused:
            plan = self.without_refused(plan, owned)
        changes = plan.changes
        oracle = _described(state)
        _lawful(plan, oracle)
        waiting = self.unsettled(owned, described)
        sendable = tuple(c for c in changes if not waiting or waiting[PAIR].value == c.after)
        record_changes = (*plan.bookkeeping, *self.intents(sendable))
        owned = owned.with_changes(record_changes)
        after = replace(
            oracle,
            changes=canonical(owned),
            open=oracle.open | {change.after for change in sendable if not change.is_temporary},
        )
        is_held = bool(changes) and self.waits(changes, waiting)
        return BegunRun(
            changes=changes, waiting=waiting, after=after, is_held=is_held, is_refused=is_refused
        )

    def run(self, state: PairState, fate: str, meanwhile: Value | str = "nothing") -> PairState:
        """The state after a run with this outcome; another writer may write between describe and send."""
        begun = self.begin(state, is_refused=fate == "refused by a guard")
        changes, after = begun.changes, begun.after
        if meanwhile != "nothing":
            after = foreign(after, meanwhile)
        if fate == "crash before sending":
            return after
        if changes:
            (change,) = changes
            result: Result | None
            if begun.is_held or (fate == "held" and change.cause is not Cause.ENDED):
                result = Held(waits_for=(ALICE,))
            else:
                after, result = _sent(after, change, fate)
            if fate in {"crash after sending", "lease lost"}:
                return after
            pairs = judge(changes, {PAIR: result}, live=live_of(after.live), visibility=SEEN)
            owned = owned_of(after).with_changes(self.results(pairs, begun.waiting))
            after = replace(after, changes=canonical(owned))
        if fate in ENDING_FATES and meanwhile == "nothing" and not owned_of(state).intents:
            self._lawful_end(state, after, fate, is_refused=begun.is_refused)
        return after

    def _lawful_end(
        self, state: PairState, after: PairState, fate: str, *, is_refused: bool
    ) -> None:
        """An override that is over ends in one run: with the declared value, or the one from before and its record."""
        override = owned_of(state).overrides.get(PAIR)
        declared = None if state.suspended else state.declared
        if override is None or self.rules.in_force is Policy.OBSERVE:
            return
        if not override.document and override.in_force(NOW, declared):
            return
        if state.raised is not None:
            above = owned_of(after).overrides.get(PAIR)
            may_write = self.rules.in_force in CHANGING and not is_refused
            is_above = above is not None and above.value == state.raised
            if may_write and override.document and not is_above:
                raise LawViolated("a document with an end is not in force")
            return
        if PAIR in owned_of(after).overrides and override.until <= NOW:
            raise LawViolated("an override that has ended stays recorded")
        if override.document and not override.is_written:
            self._leaves_nothing(state, after, fate)
        else:
            _is_followed(override, state, after, declared, is_refused=is_refused)

    def _leaves_nothing(self, state: PairState, after: PairState, fate: str) -> None:
        """A temporary limit that never began ends as if it had never been."""
        without = owned_of(state).with_changes([OverrideEnded(entity=ALICE, key=RATE)])
        if after != self.run(replace(state, changes=canonical(without)), fate):
            raise LawViolated("a temporary limit that never began leaves something behind")


def _is_followed(
    override: Override,
    state: PairState,
    after: PairState,
    declared: float | None,
    *,
    is_refused: bool,
) -> None:
    """The declared value follows an override; if there is none or a guard refuses it, the value from before it."""
    applied = owned_of(state).records.get(ALICE, NO_RECORD).applied[COLUMN]
    if declared is None or (is_refused and override.is_news(declared, applied)):
        expected = override.before if override.has_written(state.live) else state.live
        if owned_of(after).records != owned_of(state).records and declared is None:
            raise LawViolated("the record below an override changed with its end")
    else:
        expected = declared
    if after.live != expected:
        raise LawViolated(f"{after.live} follows an override, and not {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunRun:
    """A run whose intents are recorded: its changes, writes that it waits for, the state, whether it sends nothing, and
    whether a guard refuses what documents ask for."""

    changes: tuple[QuotaChange, ...]
    waiting: Mapping[tuple[Entity, Key], Intent]
    after: PairState
    is_held: bool
    is_refused: bool


def _sent(state: PairState, change: QuotaChange, fate: str) -> tuple[PairState, Result]:
    match fate:
        case "rejected":
            return state, REFUSED
        case "lost":
            return state, LOST
        case "lost and late" | "lease lost":
            return replace(state, late=frozenset({change.after})), LOST
        case "lost but applied":
            return written(state, change.after), LOST
        case _:
            return written(state, change.after), Applied()


def written(state: PairState, value: Value) -> PairState:
    """A request of the product is executed.

    Until this is recorded, the recorded value still counts: if another writer sets it again, no describe can
    distinguish that from a request that was never executed. A value above the record changes nothing of what is owned.
    """
    owned = owned_of(state)
    if PAIR in owned.overrides:
        return _adopted(replace(state, live=value))
    earlier_values = {owned.records.get(ALICE, NO_RECORD).applied[COLUMN]}
    own_values = state.own_values if value is None else state.own_values & earlier_values | {value}
    return _adopted(replace(state, live=value, own_values=frozenset(own_values)))


def foreign(state: PairState, value: Value) -> PairState:
    """Another writer sets a value. If an open intent names it, no describe can distinguish the two."""
    own_values = state.own_values | (
        {value} if value is not None and value in state.open else set()
    )
    return _adopted(replace(state, live=value, own_values=frozenset(own_values)))


def _adopted(state: PairState) -> PairState:
    if state.declared is not None and state.declared == state.live and not state.suspended:
        return replace(state, own_values=state.own_values | {state.live})
    return state


def _described(state: PairState) -> PairState:
    """A describe closes intents that are older than 65 s and not live, and ownership of removed values."""
    intent = owned_of(state).intents.get(PAIR)
    is_fresh = intent is not None and intent.may_still_land(NOW)
    if is_fresh:
        return state
    return replace(state, open=frozenset(v for v in state.open if v == state.live))


def _lawful(plan: Plan, state: PairState) -> None:
    """No removal without request; records only of live values."""
    for change in plan.changes:
        if change.after is not None or change.is_temporary:
            continue
        if change.before not in state.own_values | state.open:
            raise LawViolated(f"a removal of {change.before}, which is not ours")
        if state.declared is not None:
            raise LawViolated("a declared value is removed")
    intent = owned_of(state).intents.get(PAIR)
    for record in plan.bookkeeping:
        if isinstance(record, Recorded) and record.value != state.live:
            raise LawViolated(f"{record.value} is recorded and {state.live} is live")
        if not isinstance(record, IntentEnded) or intent is None or not intent.may_still_land(NOW):
            continue
        if not has_landed(PAIR, intent, live_of(state.live)):
            raise LawViolated(f"an intent of {intent.value} ends, and its write may still land")


Action: TypeAlias = Callable[[PairState], PairState]


def declare(value: Value, policy: DeletionPolicy | None, suspended: bool = False) -> Action:
    return lambda state: _adopted(
        replace(
            state, declared=value, policy=policy if value is not None else None, suspended=suspended
        )
    )


def let_writes_land(state: PairState) -> PairState:
    """65 s pass: no earlier request is executed any more."""
    owned = owned_of(state)
    aged = {pair: replace(intent, at=OLD) for pair, intent in owned.intents.items()}
    return replace(state, late=frozenset(), changes=canonical(replace(owned, intents=aged)))


def land_late_write(value: Value) -> Action:
    """An earlier request is executed now, if it can be."""
    return lambda state: (
        replace(written(state, value), late=state.late - {value}) if value in state.late else state
    )


def end_override(state: PairState) -> PairState:
    """The end time of an override and of a document with an end passes."""
    override = owned_of(state).overrides.get(PAIR)
    if override is None:
        return replace(state, raised=None)
    ended = owned_of(state).with_changes([OverrideSet(override=replace(override, until=NOW - 1.0))])
    return replace(state, changes=canonical(ended), raised=None)


def begin_override_of(
    value: Value, ends_with_document: bool, *, base: Value | UnsetType = UNSET
) -> Action:
    """An override; one of a live override replaces what that one replaced, and a rollback restores what was below it."""

    def begin(state: PairState) -> PairState:
        owned = owned_of(state)
        override = Override(
            entity=ALICE,
            key=RATE,
            value=value,
            until=NOW + 1.0,
            author="oncall",
            reason="incident",
            declared=state.declared if ends_with_document and not state.suspended else None,
            ends_with_document=ends_with_document,
        )
        settled = settle_intents(owned, live_of(state.live), now=NOW).owned
        override = override.begun(settled.overrides.get(PAIR), state.live)
        if ends_with_document:
            override = replace(override, before=value if base is UNSET else base)
        return replace(
            state, changes=canonical(owned.with_changes([OverrideSet(override=override)]))
        )

    return begin


def _rolled_back(product: Product) -> Action:
    """A run, after which its change is rolled back: an override with the value before, which ends with the document."""

    def act(state: PairState) -> PairState:
        after = product.run(state, "answered")
        if after.live == state.live:
            return after
        before = settle_intents(owned_of(state), live_of(state.live), now=NOW).owned
        restored = owned_of(after).with_changes(
            restore(
                PAIR,
                before.applied_value(PAIR),
                before.owner_of(PAIR),
                is_orphaned=PAIR in before.orphaned,
                intent=owned_of(after).intents.get(PAIR),
            )
        )
        override = before.overrides.get(PAIR)
        base = state.live if override is None else override.before
        begun = begin_override_of(state.live, ends_with_document=True, base=base)
        own_values = state.own_values | after.own_values
        return begun(replace(after, changes=canonical(restored), own_values=own_values))

    return act


def raise_to(value: Value) -> Action:
    """A document with an end is written or, with None, deleted."""
    return lambda state: replace(state, raised=value)


POLICIES = (None, DeletionPolicy.DELETE, DeletionPolicy.RETAIN)


def documents(policies: tuple[DeletionPolicy | None, ...], *, raises: bool) -> dict[str, Action]:
    """All that documents can say, by name: people may change them at any time, so they are no part of a state."""
    lasting = {"no document": declare(None, None)}
    for value in VALUES[1:]:
        for policy in policies:
            lasting[f"declare {value} {policy}"] = declare(value, policy)
        lasting[f"suspend {value}"] = declare(value, None, suspended=True)
    if not raises:
        return lasting
    return {
        f"{name}, raise to {value}": lambda state, act=act, value=value: raise_to(value)(act(state))
        for name, act in lasting.items()
        for value in VALUES
    }


def actions(*, overrides: bool, raises: bool = False) -> dict[str, Action]:
    """What can happen beside a run: to the clock, by another writer, by an earlier request, by a person."""
    table: dict[str, Action] = {"65 s pass": let_writes_land}
    for value in VALUES:
        table[f"another writer sets {value}"] = lambda state, value=value: foreign(state, value)
        table[f"the late write of {value} lands"] = land_late_write(value)
        if overrides:
            table[f"override {value} False"] = begin_override_of(value, False)
    if overrides or raises:
        table["the override is over"] = end_override
    return table


def runs(product: Product, *, overrides: bool, fates: tuple[str, ...] = FATES) -> dict[str, Action]:
    """What can happen in view of the documents: a run with each outcome, and an override that ends with its document."""
    table: dict[str, Action] = {
        f"run, {fate}": lambda state, fate=fate: product.run(state, fate) for fate in fates
    }
    for value in VALUES:
        table[f"run, another writer sets {value} meanwhile"] = lambda state, value=value: (
            product.run(state, "answered", value)
        )
        if overrides:
            table[f"override {value} True"] = begin_override_of(value, True)
    if overrides:
        table["run, and it is rolled back"] = _rolled_back(product)
    return table


WITHOUT_CHANGES = frozenset({"run, answered", "run, refused by a guard"})
"""The outcomes of a run that has nothing to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The explored numbers of states and steps, and whether all states were explored."""

    states: int
    steps: int
    complete: bool


class Explored:
    """The states that were reached, and how: records, live value and requests on their way, by the least that is allowed.

    What documents say is left out, since it can change at any time. The two values are told apart by their order only, and
    have the names that come first. `own_values` and `open` permit removals and forbid nothing: of two states that differ
    in them alone, one that permits more can break no law that the other keeps.
    """

    def __init__(self, first: PairState) -> None:
        self.origin: dict[PairState, tuple[PairState, str] | None] = {}
        self.todo = deque[PairState]()
        self._least: dict[PairState, list[PairState]] = {}
        self.add(first, None)

    def add(self, state: PairState, step: tuple[PairState, str] | None) -> None:
        state = _renamed(replace(state, declared=None, policy=None, suspended=False, raised=None))
        least = self._least.setdefault(_unmarked(state), [])
        if any(_permits(each, state) for each in least):
            return
        least[:] = [each for each in least if not _permits(state, each)]
        least.append(state)
        self.origin[state] = step
        self.todo.append(state)

    def next(self) -> PairState | None:
        """The next state to explore; not one that another one stands for."""
        while self.todo:
            state = self.todo.popleft()
            if any(each is state for each in self._least[_unmarked(state)]):
                return state
        return None


NO_VALUES = frozenset[Value]()


def _unmarked(state: PairState) -> PairState:
    return replace(state, own_values=NO_VALUES, open=NO_VALUES)


def _permits(least: PairState, state: PairState) -> bool:
    return least.own_values <= state.own_values and least.open <= state.open


def _renamed(state: PairState) -> PairState:
    """The same state with the names of the two values by their first place in it."""
    records = _values_of(state.changes)
    first = next((v for v in (state.live, *records, *state.late) if v is not None), None)
    if first in {None, VALUES[1]}:
        return state
    return PairState(
        live=_other(state.live),
        changes=_with_others(state.changes),
        late=frozenset(map(_other, state.late)),
        own_values=frozenset(map(_other, state.own_values)),
        open=frozenset(map(_other, state.open)),
    )


def _other(value: Value) -> Value:
    return {VALUES[1]: VALUES[2], VALUES[2]: VALUES[1]}.get(value)


@cache
def _values_of(changes: tuple[RecordChange, ...]) -> tuple[Value, ...]:
    values: list[Value] = []
    for change in changes:
        match change:
            case Recorded(value=value):
                values.append(value)
            case IntentStarted(intent=intent):
                values.append(intent.value)
            case OverrideSet(override=above):
                values += (above.value, above.before, above.applied, above.declared)
            case _:
                pass
    return tuple(values)


@cache
def _with_others(changes: tuple[RecordChange, ...]) -> tuple[RecordChange, ...]:
    renamed: list[RecordChange] = []
    for change in changes:
        match change:
            case Recorded(value=value):
                renamed.append(replace(change, value=_other(value)))
            case IntentStarted(intent=intent):
                renamed.append(replace(change, intent=replace(intent, value=_other(intent.value))))
            case OverrideSet(override=above):
                names = ("value", "before", "applied", "declared")
                values = {name: _other(getattr(above, name)) for name in names}
                renamed.append(OverrideSet(override=replace(above, **values)))
            case _:
                renamed.append(change)
    return tuple(renamed)


def explore(
    product: Product,
    *,
    overrides: bool = False,
    raises: bool = False,
    policies: tuple[DeletionPolicy | None, ...] = POLICIES,
    fates: tuple[str, ...] = FATES,
    most_states: int = 1_000_000,
    first: PairState = NOTHING,
) -> Exploration:
    """Explore every state that is reachable from the first one, under all documents; each must converge.

    Raises:
        LawViolated: A law is violated; the message has the shortest history.
    """
    table = actions(overrides=overrides, raises=raises)
    of_run = runs(product, overrides=overrides, fates=fates)
    spoken = documents(policies, raises=raises)
    explored, calm, steps = Explored(first), set[PairState](), 0
    while len(explored.origin) < most_states and (state := explored.next()) is not None:
        try:
            for name, action in table.items():
                explored.add(action(state), (state, name))
            for documents_name, speak in spoken.items():
                declared_state = speak(state)
                begun = product.begin(declared_state, is_refused=False)
                for name, action in of_run.items():
                    if begun.changes or not name.startswith("run, ") or name in WITHOUT_CHANGES:
                        explored.add(action(declared_state), (state, f"{documents_name}; {name}"))
                        steps += 1
                if declared_state.raised is None:
                    come_to_rest(product, declared_state, calm)
        except LawViolated as error:
            steps_before = "; ".join(history(explored.origin, state))
            raise LawViolated(f"{error}: {steps_before}; then {state}") from None
        steps += len(table)
    return Exploration(states=len(explored.origin), steps=steps, complete=explored.next() is None)


def history(
    origin: Mapping[PairState, tuple[PairState, str] | None], state: PairState
) -> Iterator[str]:
    """The actions that lead to a state."""
    step = origin[state]
    if step is not None:
        yield from history(origin, step[0])
        yield step[1]


def come_to_rest(product: Product, state: PairState, calm: set[PairState]) -> None:
    """Without faults everything is as declared within four runs, and then nothing more is written."""
    visited = []
    everything = frozenset(VALUES)  # What may be removed is judged in each run.
    after = end_override(let_writes_land(replace(state, own_values=everything, open=everything)))
    for _ in range(4):
        if after in calm:
            calm.update(visited)
            return
        visited.append(after)
        before, after = after, let_writes_land(product.run(after, "answered"))
        if before == after:
            break
    else:
        raise LawViolated(f"no rest: {after}")
    _lawful_rest(product, after)
    calm.update(visited)


def _lawful_rest(product: Product, state: PairState) -> None:
    owned = owned_of(state)
    if owned.intents:
        raise LawViolated("an intent never ends")
    if product.planned(state, state.live).changes:
        raise LawViolated("there is always something to write")
    if state.suspended:
        return
    is_declared = state.declared is not None and state.declared != state.live
    is_corrected = product.rules.in_force in CHANGING and product.rules.drift is DriftMode.CORRECT
    if is_declared and is_corrected:
        raise LawViolated(f"{state.live} is live and {state.declared} declared")
    record = owned.records.get(ALICE, NO_RECORD)
    owner: Owner | None = record.owners[COLUMN]
    if owner is None or state.declared is not None or record.applied[COLUMN] != state.live:
        return
    is_deleted = owner.deletion_policy is DeletionPolicy.DELETE and PAIR not in owned.orphaned
    if owner.document and is_deleted and product.rules.in_force in REMOVING:
        raise LawViolated(f"{state.live} stays although its document was deleted with Delete")


__all__ = ["Exploration", "LawViolated", "PairState", "Product", "explore"]
