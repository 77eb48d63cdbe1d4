"""Hypothesis strategies for the values of ``reconciler.quota``.

Few names and few numbers, so that entities overlap and values coincide. Among the names are always the literal
``<default>``, the empty name and names that are not ASCII: none of them is the default.
"""

from hypothesis import strategies as st
from msgspec import Struct

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.keys import COLUMNS, RULES, Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    Intent,
    IntentStarted,
    Orphaned,
    OverrideSet,
    Owner,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.patterns import EVERYTHING, EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.policy import DeletionPolicy, DriftMode, IgnoreRule, Policy, Rules
from reconciler.quota.state import Limits, QuotaState, limits_of

USERS = ("alice", "<default>", "", "zoë 日本")
CLIENTS = ("app", "<default>", "", "x")
ADDRESSES = ("10.0.0.1", "10.0.0.2")

ENTITIES: tuple[Entity, ...] = (
    *(
        entity(user=user, client_id=client)
        for user in (ABSENT, DEFAULT, *USERS)
        for client in (ABSENT, DEFAULT, *CLIENTS)
        if (user, client) != (ABSENT, ABSENT)
    ),
    *(entity(ip=ip) for ip in (DEFAULT, *ADDRESSES)),
)
FEW: tuple[Entity, ...] = (
    entity(user="alice", client_id="app"),
    entity(user="alice"),
    entity(user="<default>"),
    entity(user=DEFAULT),
    entity(client_id=DEFAULT),
    entity(ip="10.0.0.1"),
)
"""So few that every side of a comparison uses them."""

NOW = 1_000.0
NEAR = 2.000_000_5
NUMBERS = (1.0, 2.0, NEAR, 3.0)
DOCUMENTS = ("team/one", "team/two", "team/three", "other/four")
POLICIES = (None, DeletionPolicy.RETAIN, DeletionPolicy.DELETE)

entities = st.sampled_from(ENTITIES)
numbers = st.sampled_from(NUMBERS)
whole_numbers = st.sampled_from([1.0, 2.0, 3.0])


def keys_of(subject: Entity) -> tuple[Key, ...]:
    """The keys that an entity can carry."""
    return tuple(key for key in COLUMNS if RULES[key].on_ip == (subject[2] is not ABSENT))


def limits(
    subject: Entity, values: st.SearchStrategy[float] = numbers
) -> st.SearchStrategy[Limits]:
    """At least one valid key, two at most."""
    keys = st.sampled_from(keys_of(subject))
    return st.dictionaries(keys, values, min_size=1, max_size=2).map(limits_of)


@st.composite
def states(
    draw: st.DrawFn, *, among: tuple[Entity, ...] = ENTITIES, max_size: int = 8
) -> QuotaState:
    """Possible quota states of a cluster."""
    subjects = draw(st.lists(st.sampled_from(among), unique=True, max_size=max_size))
    return QuotaState(limits={subject: draw(limits(subject)) for subject in subjects})


@st.composite
def declarations(
    draw: st.DrawFn, *, among: tuple[Entity, ...] = FEW, max_size: int = 5
) -> list[Declaration]:
    """Documents at different places; two may name one entity, even one pair."""
    subjects = draw(st.lists(st.sampled_from(among), max_size=max_size))
    return [
        Declaration(
            document=draw(st.sampled_from(DOCUMENTS)),
            entity=subject,
            limits=draw(limits(subject, whole_numbers)),
            path="quotas.yaml",
            line=10 * number + 1,
            deletion_policy=draw(st.sampled_from(POLICIES)),
            suspended=draw(st.sampled_from([False, False, False, True])),
        )
        for number, subject in enumerate(subjects)
    ]


owners = st.builds(
    Owner,
    document=st.sampled_from(DOCUMENTS),
    deletion_policy=st.sampled_from(POLICIES),
    since=st.just(1.0),
)
pairs = st.sampled_from([(subject, key) for subject in FEW for key in keys_of(subject)])


@st.composite
def inventories(draw: st.DrawFn, *, overrides: bool = True) -> OwnershipRecords:
    """Records, orphans, intents and overrides, as after a series of runs with crashes."""
    owned_pairs = draw(st.lists(pairs, unique=True, max_size=8))
    changes: list[object] = [
        Recorded(entity=subject, key=key, value=draw(whole_numbers), owner=draw(owners))
        for subject, key in owned_pairs
    ]
    changes += [
        Orphaned(entity=subject, key=key)
        for subject, key in owned_pairs
        if draw(st.integers(0, 4)) == 0
    ]
    changes += [
        IntentStarted(
            entity=subject,
            key=key,
            intent=Intent(
                value=draw(st.none() | whole_numbers),
                owner=draw(owners),
                at=draw(st.sampled_from([1.0, NOW - 1])),
            ),
        )
        for subject, key in draw(st.lists(pairs, unique=True, max_size=2))
    ]
    if overrides:
        changes += [
            OverrideSet(override=draw(overrides_of(subject, key)))
            for subject, key in draw(st.lists(pairs, unique=True, max_size=2))
        ]
    return OwnershipRecords(cluster_id="c").with_changes(changes)


def overrides_of(subject: Entity, key: Key) -> st.SearchStrategy[Override]:
    """One override, ended or not."""
    return st.builds(
        Override,
        entity=st.just(subject),
        key=st.just(key),
        value=st.none() | whole_numbers,
        until=st.sampled_from([NOW - 1, NOW + 1]),
        author=st.just("nightshift"),
        reason=st.just("because"),
        before=st.none() | whole_numbers,
        declared=st.none() | whole_numbers,
        applied=st.none() | whole_numbers,
        ends_with_document=st.booleans(),
    )


ALICE = EntityPattern(user=NamePattern(exact="alice"))
rules = st.builds(
    Rules,
    policy=st.sampled_from(Policy),
    sync_confirmed=st.booleans(),
    drift=st.sampled_from(DriftMode),
    scope=st.sampled_from([(), (ALICE,), (EVERYTHING,)]),
    ignore=st.sampled_from(
        [
            (),
            (),
            (IgnoreRule(entities=ALICE, reason="known"),),
            (IgnoreRule(entities=EVERYTHING, reason="over", until=NOW - 1),),
        ]
    ),
    complete=st.sampled_from([True, True, True, False]),
    force=st.booleans(),
)


class World(Struct, frozen=True, kw_only=True, gc=False):
    """All inputs of one comparison."""

    desired: DesiredState
    owned: OwnershipRecords
    live: QuotaState
    rules: Rules


def worlds(*, overrides: bool = True) -> st.SearchStrategy[World]:
    """Desired, owned and live states with the same few entities."""
    return st.builds(
        World,
        desired=st.builds(merge, declarations(), frozen=st.sampled_from([(), (), ("team/three",)])),
        owned=inventories(overrides=overrides),
        live=states(among=FEW),
        rules=rules,
    )


_other_parts = st.sampled_from(
    [
        ("client-id-prefix", "etl-"),
        ("client-id-prefix", "we"),
        ("client-id-prefix", ""),
        ("team", "a"),
        ("team", None),
    ]
)
_kafka_parts = st.sampled_from(
    [
        (),
        (("user", "alice"),),
        (("user", None),),
        (("client-id", "web"),),
        (("ip", "10.0.0.1"),),
        (("ip", None),),
    ]
)
foreign_entities = st.lists(
    st.tuples(
        st.builds(
            lambda kind, known_parts: tuple(sorted((kind, *known_parts))),
            _other_parts,
            _kafka_parts,
        ),
        st.dictionaries(st.sampled_from([str(key) for key in COLUMNS]), numbers, min_size=1).map(
            lambda values: tuple(sorted(values.items()))
        ),
    ),
    max_size=3,
    unique_by=lambda foreign_entity: foreign_entity[0],
).map(tuple)
"""Entities with a type that Kafka does not define, alone or beside its own types, and their values."""
