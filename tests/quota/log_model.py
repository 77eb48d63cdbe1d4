"""A model of the metadata log for the safety law of the order, with an independent resolver and test states.

Nothing here uses ``precedence``: the order is checked by an independent implementation of Kafka's rules. Names are
few, so that entities overlap; among them are always the literal ``<default>``, the empty name and names that are not
ASCII.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.keys import COLUMNS, RULES, Key
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.send_order import SendBatch, SendSchedule, chunks
from reconciler.quota.policy import Cause
from reconciler.quota.state import (
    Alteration,
    Applied,
    Held,
    Limits,
    QuotaState,
    Rejected,
    Result,
    Unknown,
    limits_of,
)

USERS = ("alice", "<default>", "", "zoë 日本")
CLIENTS = ("app", "<default>", "", "\u2028x")
ADDRESSES = ("10.0.0.1", "::1")
STRANGER = "a stranger whom nobody names"

ENTITIES: tuple[Entity, ...] = (
    *(
        entity(user=user, client_id=client)
        for user in (ABSENT, DEFAULT, *USERS)
        for client in (ABSENT, DEFAULT, *CLIENTS)
        if (user, client) != (ABSENT, ABSENT)
    ),
    *(entity(ip=ip) for ip in (DEFAULT, *ADDRESSES)),
)
CROWD: tuple[Entity, ...] = tuple(
    entity(user=user, client_id=client)
    for user in (ABSENT, DEFAULT, "alice")
    for client in (ABSENT, DEFAULT, "app")
    if (user, client) != (ABSENT, ABSENT)
)
"""All eight levels of one client."""

# -- limits of clients -------------------------------------------------------------------------------

Seat = tuple[Entity, ...]
"""The entities that may apply to one client, closest first."""


def seat(user: str, client: str) -> Seat:
    """Levels 1 to 8; a client without a client id has only 3 and 6."""
    slots: list[tuple[object, object]] = [
        (user, client),
        (user, None),
        (user, False),
        (None, client),
        (None, None),
        (None, False),
        (False, client),
        (False, None),
    ]
    closest_first = [slot for slot in slots if client or slot[1] is False]
    return tuple(Entity((slot[0], slot[1], ABSENT)) for slot in closest_first)


SEATS: Mapping[str, Seat] = {
    **{
        f"{user!r} {client!r}": seat(user, client)
        for user in (*(name for name in USERS if name), STRANGER)
        for client in (*CLIENTS, STRANGER)
    },
    **{
        address: (Entity((ABSENT, ABSENT, address)), Entity((ABSENT, ABSENT, None)))
        for address in (*ADDRESSES, "192.0.2.99")
    },
}
"""Every relevant client: named ones, an unnamed one, and clients that send no client id."""

Values = dict[tuple[Entity, Key], float]


def limits_of_all(values: Values, keys: frozenset[Key]) -> dict[tuple[str, Key], float | None]:
    """The limit of every client for each of these keys."""
    return {
        (who, key): next(
            (values[subject, key] for subject in around if (subject, key) in values), None
        )
        for who, around in SEATS.items()
        for key in keys
    }


# -- the log ----------------------------------------------------------------------------------------

FATES = ("applied", "rejected", "lost but applied", "lost", "lost and late")
REFUSED = Rejected(code=42, name="INVALID_REQUEST", message="no")
LOST = Unknown(reason="the connection was cut")


@dataclass(frozen=True)
class Chances:
    """The outcomes of sent entities, and the times of late writes; used in order, then all succeed."""

    fates: Sequence[str] = ()
    landings: Sequence[bool] = ()


ALL_WELL = Chances()


@dataclass
class Log:
    """Each record makes a state, and brokers may show every one of them.

    A write without a response may arrive at once, never, or at any later time, like one that a broker still forwards.
    """

    states: list[Values]
    chances: Chances
    applied: set[tuple[Entity, Key]] = field(default_factory=set)
    late: list[tuple[Entity, Key, float | None]] = field(default_factory=list)
    held_states: list[tuple[Alteration, Values]] = field(default_factory=list)
    """Each operation that was held, with the state at that time."""

    def __post_init__(self) -> None:
        self._fates = iter(self.chances.fates)
        self._landings = iter(self.chances.landings)

    def append(self, subject: Entity, key: Key, value: float | None) -> None:
        values = dict(self.states[-1])
        if value is None:
            _ = values.pop((subject, key), None)
        else:
            values[subject, key] = value
        self.states.append(values)
        self.applied.add((subject, key))

    def land(self, *, everything: bool = False) -> None:
        waiting, self.late = self.late, []
        for write in waiting:
            if everything or next(self._landings, False):
                self.append(*write)
            else:
                self.late.append(write)

    def send(self, alteration: Alteration) -> Result:
        self.land()
        fate = next(self._fates, "applied")
        writes = [(alteration.entity, Key(key), value) for key, value in alteration.operations]
        if fate == "rejected":
            return REFUSED
        if fate == "lost and late":
            self.late += writes
        elif fate != "lost":
            for write in writes:
                self.append(*write)
        return Applied() if fate == "applied" else LOST


Results = Mapping[tuple[Entity, Key], Result]


def drive(
    before: QuotaState,
    changes: Sequence[QuotaChange],
    chances: Chances = ALL_WELL,
    *,
    schedule: Callable[..., SendSchedule] = SendSchedule,
    withheld: Sequence[QuotaChange] = (),
) -> tuple[Log, Results]:
    """Send a plan like the use case: wait until visible, hold, send chunk by chunk, settle."""
    log = Log([{(subject, key): value for subject, key, value in before.pairs()}], chances)
    results: dict[tuple[Entity, Key], Result] = {}
    plan = schedule(changes, live=before)
    for change in withheld:
        plan.withhold(change)

    def settle(alteration: Alteration, result: Result) -> None:
        plan.settle(alteration, result)
        results.update(((alteration.entity, Key(key)), result) for key, _ in alteration.operations)

    for batch in plan.batches:
        if plan.not_yet_visible(batch):
            plan.mark_visible()
        waiting, free = split(batch, plan.find_held(batch))
        for alteration, result in waiting:
            settle(alteration, result)
            log.held_states.append((alteration, log.states[-1]))
        for chunk in chunks(free):
            for alteration in chunk:
                settle(alteration, log.send(alteration))
    log.land(everything=True)
    return log, results


def split(
    batch: SendBatch, waits_by_pair: Mapping[tuple[Entity, Key], tuple[Entity, ...]]
) -> tuple[list[tuple[Alteration, Held]], list[Alteration]]:
    """Return the held operations of a batch with their results, and what is left to send."""
    operations = [
        (alteration.entity, operation)
        for alteration in batch.alterations
        for operation in alteration.operations
    ]
    waiting = [
        (
            Alteration(subject, (operation,)),
            Held(waits_for=waits_by_pair[subject, Key(operation[0])]),
        )
        for subject, operation in operations
        if (subject, Key(operation[0])) in waits_by_pair
    ]
    free: dict[Entity, list[tuple[str, float | None]]] = {}
    for subject, operation in operations:
        if (subject, Key(operation[0])) not in waits_by_pair:
            free.setdefault(subject, []).append(operation)
    return waiting, [Alteration(subject, tuple(items)) for subject, items in free.items()]


def is_harmless(
    alteration: Alteration, values: Values, before: QuotaState, after: QuotaState
) -> bool:
    """Whether an operation gives no client a limit that is neither from before nor from after the plan."""
    ((key, value),) = alteration.operations
    keys = frozenset({Key(key)})
    pairs = [
        {(subject, key): value for subject, key, value in state.pairs()}
        for state in (before, after)
    ]
    old, new = (limits_of_all(values, keys) for values in pairs)
    sent = dict(values)
    if value is None:
        _ = sent.pop((alteration.entity, Key(key)), None)
    else:
        sent[alteration.entity, Key(key)] = value
    return all(
        limit in {old[client], new[client]} for client, limit in limits_of_all(sent, keys).items()
    )


def breaches(
    changes: Sequence[QuotaChange], log: Log, *, ends: Sequence[QuotaChange] = ()
) -> list[tuple[str, Key, float | None]]:
    """Limits, in some state of the log, that are neither from before the plan nor from after it.

    "After" has two meanings: the state after the whole plan, and the state after the executed operations.

    Args:
        ends: Ends of overrides: a limit may also be the one that they alone would give.
    """
    keys = frozenset(item.key for item in changes)
    old, reached = limits_of_all(log.states[0], keys), limits_of_all(log.states[-1], keys)
    planned_limits = limits_of_all(_changed(log.states[0], changes), keys)
    undone = limits_of_all(_changed(log.states[0], ends), keys)
    return [
        (*client, value)
        for state in log.states
        for client, value in limits_of_all(state, keys).items()
        if value not in {old[client], undone[client], planned_limits[client]}
        or value not in {old[client], undone[client], reached[client]}
    ]


def _changed(values: Values, changes: Sequence[QuotaChange]) -> Values:
    target = dict(values)
    for change in changes:
        if change.after is None:
            _ = target.pop(change.pair, None)
        else:
            target[change.pair] = change.after
    return target


# -- states and plans -------------------------------------------------------------------------------


def changes_between(before: QuotaState, after: QuotaState) -> tuple[QuotaChange, ...]:
    """The minimal changes from one state to the other."""
    return tuple(
        QuotaChange(
            entity=subject,
            key=key,
            before=was,
            after=will,
            cause=Cause.SPEC if will else Cause.PRUNE,
        )
        for subject in sorted(before.limits.keys() | after.limits.keys(), key=repr)
        for key in COLUMNS
        if (was := before.value(subject, key)) != (will := after.value(subject, key))
    )


def as_ends(changes: Sequence[QuotaChange], random: Random) -> tuple[QuotaChange, ...]:
    """The same changes, some of which end overrides."""
    return tuple(
        replace(change, cause=Cause.ENDED) if random.random() < 0.4 else change
        for change in changes
    )


def ends_of(changes: Sequence[QuotaChange]) -> list[QuotaChange]:
    """The changes that end overrides."""
    return [change for change in changes if change.cause is Cause.ENDED]


@st.composite
def limits_for(draw: st.DrawFn, subject: Entity) -> Limits:
    """One or two keys that the entity can carry."""
    keys = [key for key in COLUMNS if RULES[key].on_ip == (subject[2] is not ABSENT)][:2]
    limit_keys = draw(st.lists(st.sampled_from(keys), unique=True, min_size=1))
    return limits_of({key: draw(st.sampled_from([1.0, 2.0, 3.0])) for key in limit_keys})


@st.composite
def states(draw: st.DrawFn, among: Sequence[Entity] = ENTITIES) -> QuotaState:
    """Possible quota states of a cluster."""
    subjects = draw(st.lists(st.sampled_from(among), unique=True, max_size=8))
    return QuotaState(limits={subject: draw(limits_for(subject)) for subject in subjects})


def with_distinct_values(before: QuotaState, after: QuotaState) -> tuple[QuotaState, QuotaState]:
    """Return the states with the same changes, in which no two limits are equal by chance."""
    numbers = itertools.count(10.0)
    old = {(subject, key): next(numbers) for subject, key, _ in before.pairs()}
    new = {
        (subject, key): old[subject, key] if before.value(subject, key) == value else next(numbers)
        for subject, key, value in after.pairs()
    }
    return tuple(
        QuotaState().with_values((*pair, value) for pair, value in values.items())
        for values in (old, new)
    )


PLANS = st.tuples(states(), states()) | st.tuples(states(CROWD), states(CROWD))
CHANCES = st.builds(
    Chances,
    fates=st.lists(st.sampled_from(FATES), max_size=16),
    landings=st.lists(st.booleans(), max_size=30),
)
