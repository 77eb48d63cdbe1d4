"""The limit of a client: all 256 subsets of the eight levels against an independent implementation of Kafka's rules."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import ABSENT, DEFAULT, canonical_address, entity, level
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.precedence import (
    EffectiveLimit,
    OverriddenLimit,
    Principal,
    UnrankedLimit,
    candidates,
    ip_candidates,
    resolve,
    resolve_all,
    unranked_parts,
)
from reconciler.quota.state import QuotaState, limits_of
from tests.hypothesis_profiles import count_examples
from tests.quota.log_model import CLIENTS, CROWD, STRANGER, USERS, seat, states

RATE = Key.PRODUCER_BYTE_RATE
ALICE = Principal(user="alice", client_id="app")
# In order of precedence: 1 user+client, 2 user+default client, 3 user, 4 to 6 the same of the default user, 7, 8.
LEVELS = sorted(CROWD, key=level)


def of(values: dict, column: int = 0) -> QuotaState:
    rows = {}
    for subject, value in values.items():
        row = [None] * 5
        row[column] = value
        rows[subject] = tuple(row)
    return QuotaState(limits=rows)


def for_rate(state: QuotaState, principal: Principal):
    return next(limit for limit in resolve(state, principal).effective if limit.key is RATE)


@pytest.mark.parametrize(
    ("user", "client_id", "reached"),
    [
        pytest.param("alice", "app", (1, 2, 3, 4, 5, 6, 7, 8), id="both named"),
        pytest.param("alice", "other", (2, 3, 5, 6, 8), id="another client id"),
        pytest.param("bob", "app", (4, 5, 6, 7, 8), id="another user"),
        pytest.param("bob", "other", (5, 6, 8), id="another user and another client id"),
        pytest.param("alice", "", (3, 6), id="empty client id"),
        pytest.param("alice", None, (3, 6), id="no client id"),
        pytest.param("ANONYMOUS", "app", (4, 5, 6, 7, 8), id="not authenticated"),
        pytest.param(None, "app", (4, 5, 6, 7, 8), id="a client id alone"),
        pytest.param(None, "", (6,), id="a client id alone, empty"),
    ],
)
def test_the_closest_of_any_levels_applies_and_the_others_are_overridden_in_order(
    user, client_id, reached
):
    for present in itertools.product((False, True), repeat=8):
        state = of(
            {
                subject: float(level(subject))
                for subject, is_present in zip(LEVELS, present, strict=True)
                if is_present
            }
        )
        levels = [number for number in reached if present[number - 1]]
        limit = for_rate(state, Principal(user=user, client_id=client_id))
        assert limit.level == (levels[0] if levels else 0)
        assert limit.value == (float(levels[0]) if levels else None)
        assert limit.source == (LEVELS[levels[0] - 1] if levels else None)
        assert limit.overridden == tuple(
            OverriddenLimit(entity=LEVELS[number - 1], level=number, value=float(number))
            for number in levels[1:]
        )


@settings(max_examples=count_examples(100))
@given(states())
def test_random_states_are_resolved_as_by_an_independent_implementation(state):
    for user, client in itertools.product((*filter(None, USERS), STRANGER), (*CLIENTS, STRANGER)):
        for limit in resolve(state, Principal(user=user, client_id=client)).effective:
            holding = [
                (subject, value)
                for subject in seat(user, client)
                if (value := state.value(subject, limit.key)) is not None
            ]
            assert (limit.source, limit.value) == (holding[0] if holding else (None, None))
            assert [(lost.entity, lost.value) for lost in limit.overridden] == holding[1:]


def test_each_key_is_resolved_separately():
    state = QuotaState(
        limits={
            entity(user="alice"): (None, 7.0, None, None, None),
            entity(user=DEFAULT): (5.0, 6.0, None, None, None),
        }
    )
    resolution = resolve(state, ALICE)
    assert resolution.limit(Key.PRODUCER_BYTE_RATE) == 5.0
    assert resolution.limit(Key.CONSUMER_BYTE_RATE) == 7.0
    assert resolution.limit(Key.REQUEST_PERCENTAGE) is None
    assert resolution.limit(Key.CONNECTION_CREATION_RATE) is None


def test_the_literal_name_of_the_default_is_a_name():
    state = of({entity(user="<default>"): 1.0, entity(user=DEFAULT): 2.0})
    assert for_rate(state, Principal(user="<default>")).value == 1.0
    assert for_rate(state, Principal(user="alice")).value == 2.0


@pytest.mark.parametrize(
    ("number", "bucket"),
    [
        (1, ("alice", "app")),
        (2, ("alice", "app")),
        (3, ("alice", "")),
        (4, ("alice", "app")),
        (5, ("alice", "app")),
        (6, ("alice", "")),
        (7, ("", "app")),
        (8, ("", "app")),
    ],
)
def test_the_level_determines_the_bucket(number, bucket):
    limit = for_rate(of({LEVELS[number - 1]: 1.0}), ALICE)
    assert limit.bucket == bucket


def test_an_address_is_limited_by_ip_entities_only():
    state = QuotaState(
        limits={
            entity(ip="10.0.0.1"): (None, None, None, None, 5.0),
            entity(ip=DEFAULT): (None, None, None, None, 9.0),
            entity(user=DEFAULT): (1.0, None, None, None, None),
        }
    )
    (named,) = resolve(state, Principal(ip="10.0.0.1")).effective
    assert (named.value, named.level, named.bucket) == (5.0, 9, ("10.0.0.1",))
    assert named.overridden == (OverriddenLimit(entity=entity(ip=DEFAULT), level=10, value=9.0),)
    (default_limit,) = resolve(state, Principal(ip="10.0.0.2")).effective
    assert (default_limit.value, default_limit.level, default_limit.bucket) == (
        9.0,
        10,
        ("10.0.0.2",),
    )
    (nobody,) = resolve(of({}), Principal(ip="10.0.0.2")).effective
    assert (nobody.value, nobody.level, nobody.bucket) == (None, 0, ())


def test_a_client_with_an_address_has_all_five_keys_in_column_order():
    both = Principal(user="alice", client_id="app", ip="10.0.0.1")
    assert [COLUMN_OF[limit.key] for limit in resolve(of({}), both).effective] == [0, 1, 2, 3, 4]
    assert resolve(of({}), Principal()).effective == ()


def test_candidates_are_at_most_eight_in_order_of_precedence():
    assert [level(subject) for subject in candidates("alice", "app")] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert candidates(None, None) == ()
    assert ip_candidates("::1") == (entity(ip="::1"), entity(ip=DEFAULT))
    assert all(subject[2] is ABSENT for subject in candidates("alice", "app"))


RATE_OF_IP = Key.CONNECTION_CREATION_RATE


def by_address(values: dict[str | None, float], ip: str) -> EffectiveLimit:
    state = QuotaState(
        limits={entity(ip=name): limits_of({RATE_OF_IP: value}) for name, value in values.items()}
    )
    (effective,) = resolve(state, Principal(ip=ip)).effective
    return effective


@pytest.mark.parametrize("name", ["127.1", "::ffff:127.0.0.1", "[::1]", "gateway.example"])
def test_a_live_ip_that_is_no_canonical_address_makes_the_limit_of_the_address_unknown(name):
    for more in ({}, {"127.0.0.1": 5.0}, {None: 9.0}):
        effective = by_address({name: 1.0, **more}, "127.0.0.1")
        assert not effective.is_known
        assert [limit.entity for limit in effective.unranked] == [(("ip", name),)]
    assert by_address({name: 5.0, "127.0.0.1": 5.0}, "127.0.0.1").is_known


def test_another_spelling_leaves_other_addresses_known():
    effective = by_address({"0:0:0:0:0:0:0:1": 1.0, None: 9.0}, "::2")
    assert (effective.value, effective.is_known) == (9.0, True)


@given(st.ip_addresses(v=6), st.floats(1.0, 1e6))
def test_a_client_is_found_by_any_spelling_of_its_address(address, value):
    name = canonical_address(str(address))
    effective = by_address({name: value}, address.exploded)
    assert (effective.value, effective.is_known) == (value, True)


PREFIX = (("client-id-prefix", "etl-"),)
TEAM = (("team", "a"), ("user", "alice"))


def with_foreign(*entities, value: float = 7.0) -> QuotaState:
    state = of({entity(client_id=DEFAULT): 5.0})
    return replace(
        state, foreign_entities=tuple((names, ((str(RATE), value),)) for names in entities)
    )


@pytest.mark.parametrize(
    ("names", "principal", "is_unknown"),
    [
        (PREFIX, Principal(client_id="etl-1"), True),
        (PREFIX, Principal(user="bob", client_id="etl-"), True),
        (PREFIX, Principal(client_id="etl"), False),
        (PREFIX, Principal(user="etl-1"), False),
        (((*PREFIX, ("user", "alice"))), Principal(user="alice", client_id="etl-1"), True),
        (((*PREFIX, ("user", "alice"))), Principal(user="bob", client_id="etl-1"), False),
        (((*PREFIX, ("user", None))), Principal(user="bob", client_id="etl-1"), True),
        (((*PREFIX, ("user", None))), Principal(client_id="etl-1"), True),
        (TEAM, Principal(user="alice", client_id="x"), True),
        (TEAM, Principal(user="bob", client_id="x"), False),
        ((("team", None),), Principal(client_id="anything"), True),
    ],
)
def test_a_limit_of_a_foreign_type_makes_only_the_limits_of_its_clients_unknown(
    names, principal, is_unknown
):
    state = with_foreign(names)
    effective = {limit.key: limit for limit in resolve(state, principal).effective}
    assert effective[RATE].is_known is not is_unknown
    assert (effective[RATE].unranked == (UnrankedLimit(entity=names, value=7.0),)) is is_unknown
    assert all(limit.is_known for key, limit in effective.items() if key is not RATE)


def test_a_foreign_limit_of_the_same_value_changes_nothing():
    (effective,) = resolve(
        with_foreign(PREFIX, value=5.0), Principal(client_id="etl-1"), [RATE]
    ).effective
    assert effective.is_known


def test_the_unranked_entities_of_a_key_are_those_that_limit_it_in_any_state():
    states = [with_foreign(PREFIX), with_foreign(TEAM), with_foreign((("user", "alice"),))]
    assert unranked_parts(RATE, states) == {PREFIX, TEAM}
    assert unranked_parts(Key.CONSUMER_BYTE_RATE, states) == frozenset()


def test_an_ip_combined_with_a_user_has_no_level_and_makes_no_limit_unknown():
    state = with_foreign((("ip", "10.0.0.1"), ("user", "alice")))
    assert all(
        limit.is_known for limit in resolve(state, Principal(user="alice", client_id="a")).effective
    )


def test_many_clients_are_resolved_and_an_invalid_client_is_an_error_in_its_place():
    bad = Principal(ip="somewhere")
    answers = resolve_all(with_foreign(), [ALICE, Principal(), bad], [RATE])
    assert [limit.key for limit in answers[ALICE].effective] == [RATE]
    assert "needs a user" in str(answers[Principal()])
    assert "not an ip address" in str(answers[bad])
