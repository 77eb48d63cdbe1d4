"""The buckets of traffic after a change of limits: the named hard cases, and the law against known fleets."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.quota.entity import ABSENT, DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.impact.bucket_mapping import (
    CUSTOM_CALLBACK,
    HISTORY_BREAKS,
    Identifiability,
    regroup,
)
from reconciler.usage.tags import GroupKind, KeyLimits, book, bucket_of, limit_of, tags_of
from tests.hypothesis_profiles import count_examples

RATE = Key.PRODUCER_BYTE_RATE

PAIR = entity(user="alice", client_id="app")
ALICE = entity(user="alice")
ANY_USER = entity(user=DEFAULT)
ANY_PAIR = entity(user=DEFAULT, client_id=DEFAULT)
APP = entity(client_id="app")
ANY_CLIENT = entity(client_id=DEFAULT)


def of(*entities, value=100.0) -> KeyLimits:
    rows = {subject: limits_of({RATE: value}) for subject in entities}
    return book(QuotaState(limits=rows), RATE)


def answers(regrouping) -> dict:
    return {
        (mapping.bucket.user, mapping.bucket.client_id, mapping.any_name): mapping.answer
        for mapping in regrouping.mapped
    }


def test_a_changed_value_of_one_limit_is_exact_and_other_buckets_are_unchanged():
    before = of(ALICE, entity(user="bob"))
    after = KeyLimits(limits={**before.limits, ALICE: 50.0}, in_use=before.in_use)
    regrouping = regroup(before, after, [bucket_of("alice"), bucket_of("bob")])
    assert answers(regrouping) == {
        ("alice", "", False): Identifiability.EXACT,
        ("bob", "", False): Identifiability.EXACT,
    }
    (change,) = regrouping.changed
    assert (change.bucket, change.parts, change.limit, change.source) == (
        bucket_of("alice"),
        (bucket_of("alice"),),
        50.0,
        ALICE,
    )


def test_a_new_default_user_in_a_cluster_of_client_ids_is_not_identifiable():
    regrouping = regroup(
        of(APP, ANY_CLIENT),
        of(APP, ANY_CLIENT, ANY_USER),
        [bucket_of("", "app"), bucket_of("", "other")],
    )
    assert answers(regrouping) == {("", "", True): Identifiability.NOT_IDENTIFIABLE}
    assert regrouping.mapped[0].bucket.kind is GroupKind.USER
    assert regrouping.mapped[0].source == ANY_USER


def test_a_pair_separated_from_its_user_bounds_both():
    regrouping = regroup(of(ALICE), of(ALICE, PAIR), [bucket_of("alice")])
    assert answers(regrouping) == {
        ("alice", "", False): Identifiability.BOUND,
        ("alice", "app", False): Identifiability.BOUND,
    }
    assert {mapping.bucket: mapping.relieved for mapping in regrouping.mapped} == {
        bucket_of("alice"): True,
        bucket_of("alice", "app"): False,
    }
    assert [mapping.bucket for mapping in regrouping.changed] == [bucket_of("alice", "app")]


def test_a_client_id_of_every_user_is_separated_from_each_user_without_its_own_limit():
    of_all = entity(user=DEFAULT, client_id="app")
    before, after = of(ALICE, ANY_USER), of(ALICE, ANY_USER, of_all)
    regrouping = regroup(before, after, [bucket_of("alice"), bucket_of("bob")])
    assert answers(regrouping) == {
        ("alice", "", False): Identifiability.EXACT,
        ("bob", "", False): Identifiability.BOUND,
        ("bob", "app", False): Identifiability.BOUND,
    }


def test_a_user_separated_from_client_ids_relieves_their_buckets_which_need_not_be_read():
    before = of(ALICE, ANY_CLIENT)
    after = of(ALICE, ANY_CLIENT, entity(user="bob"))
    regrouping = regroup(before, after, [bucket_of("", "app"), bucket_of("", "job")])
    assert [mapping.bucket for mapping in regrouping.mapped if mapping.relieved] == [
        bucket_of("", "app"),
        bucket_of("", "job"),
    ]
    (change,) = regrouping.changed
    assert (change.bucket, change.answer) == (bucket_of("bob"), Identifiability.BOUND)
    assert change.parts == (bucket_of("", "app"), bucket_of("", "job"))


def test_a_pair_that_returns_to_its_user_is_exact():
    regrouping = regroup(
        of(ALICE, PAIR), of(ALICE), [bucket_of("alice"), bucket_of("alice", "app")]
    )
    (mapping,) = regrouping.mapped
    assert mapping.answer is Identifiability.EXACT
    assert mapping.parts == (bucket_of("alice", "app"), bucket_of("alice"))
    assert mapping.source == ALICE


def test_a_user_that_falls_back_to_the_default_user_is_exact():
    regrouping = regroup(of(ALICE, ANY_USER), of(ANY_USER), [bucket_of("alice")])
    (mapping,) = regrouping.mapped
    assert (mapping.answer, mapping.source) == (Identifiability.EXACT, ANY_USER)


def test_pairs_that_become_client_ids_are_exact():
    regrouping = regroup(
        of(ANY_PAIR), of(APP), [bucket_of("alice", "app"), bucket_of("bob", "app")]
    )
    (change,) = regrouping.changed
    assert (change.bucket, change.answer) == (bucket_of("", "app"), Identifiability.EXACT)
    assert len(change.parts) == 2


def test_the_first_limit_of_another_level_changes_the_tags_of_unlimited_clients():
    regrouping = regroup(of(ALICE), of(ALICE, APP), [bucket_of("alice"), bucket_of("bob")])
    assert regrouping.flipped == (bucket_of("bob"),)
    (change,) = (
        mapping for mapping in regrouping.changed if mapping.bucket == bucket_of("", "app")
    )
    assert (change.answer, change.parts) == (
        Identifiability.BOUND,
        (bucket_of("bob"),),
    )  # bob may be that app
    regrouping = regroup(of(ALICE), of(ALICE, PAIR), [bucket_of("alice"), bucket_of("bob")])
    assert regrouping.flipped == (bucket_of("bob"),)


def test_a_bucket_without_use_has_no_data():
    regrouping = regroup(of(ALICE), of(ALICE, value=50.0), [])
    assert answers(regrouping) == {("alice", "", False): Identifiability.NO_DATA}
    assert regroup(of(), of(ANY_USER), []).mapped[0].answer is Identifiability.NO_DATA


def test_a_default_that_was_recorded_through_its_users_is_not_reported_as_unseen():
    regrouping = regroup(of(ANY_USER), of(ANY_USER, value=50.0), [bucket_of("alice")])
    assert answers(regrouping) == {("alice", "", False): Identifiability.EXACT}


def test_an_unlimited_client_may_use_a_client_id_that_has_a_limit():
    """A client that is counted by user may use any client id, including one whose bucket seems complete."""
    before = of(ALICE, ANY_CLIENT)
    regrouping = regroup(before, of(ANY_CLIENT), [bucket_of("alice"), bucket_of("", "app")])
    mappings = {
        (mapping.bucket.client_id, mapping.any_name): mapping for mapping in regrouping.mapped
    }
    assert mappings["app", False].answer is Identifiability.BOUND
    assert mappings["app", False].parts == (bucket_of("", "app"), bucket_of("alice"))
    assert mappings["", True].answer is Identifiability.NOT_IDENTIFIABLE


def test_an_unexplained_series_makes_buckets_with_common_clients_not_identifiable():
    regrouping = regroup(
        of(ALICE), of(ALICE, value=50.0), [bucket_of("alice"), bucket_of("alice", "app")]
    )
    assert regrouping.unexplained == (bucket_of("alice", "app"),)
    assert (regrouping.mapped[0].answer, regrouping.mapped[0].reason) == (
        Identifiability.NOT_IDENTIFIABLE,
        HISTORY_BREAKS,
    )
    aside = regroup(of(ALICE), of(ALICE, value=50.0), [bucket_of("alice"), bucket_of("bob", "app")])
    assert aside.mapped[0].answer is Identifiability.EXACT


def test_with_a_custom_callback_nothing_is_identifiable():
    regrouping = regroup(of(ALICE), of(ANY_USER), [bucket_of("alice")], blind=CUSTOM_CALLBACK)
    assert {mapping.answer for mapping in regrouping.mapped} == {Identifiability.NOT_IDENTIFIABLE}
    assert {mapping.reason for mapping in regrouping.mapped} == {CUSTOM_CALLBACK}


def test_addresses_have_their_own_buckets():
    key = Key.CONNECTION_CREATION_RATE
    first, second = entity(ip="10.0.0.1"), entity(ip="10.0.0.2")
    before = book(QuotaState(limits={first: limits_of({key: 5.0})}), key)
    after = book(
        QuotaState(limits={first: limits_of({key: 9.0}), second: limits_of({key: 1.0})}), key
    )
    regrouping = regroup(before, after, [bucket_of(ip="10.0.0.1")])
    assert {
        (mapping.bucket.ip, mapping.answer, mapping.limit) for mapping in regrouping.mapped
    } == {("10.0.0.1", Identifiability.EXACT, 9.0), ("10.0.0.2", Identifiability.NO_DATA, 1.0)}
    everyone = book(QuotaState(limits={entity(ip=DEFAULT): limits_of({key: 5.0})}), key)
    (mapping,) = regroup(book(QuotaState(), key), everyone, []).mapped
    assert (mapping.bucket.kind, mapping.any_name, mapping.answer) == (
        GroupKind.IP,
        True,
        Identifiability.NO_DATA,
    )


# ---- the law ---------------------------------------------------------------------------------

USERS, CLIENTS = ("alice", "bob", "eve"), ("app", "job", "x", "")
ENTITIES = [
    entity(user=user, client_id=client)
    for user, client in itertools.product(
        (ABSENT, DEFAULT, "alice", "bob", "carol"), (ABSENT, DEFAULT, "app", "job")
    )
    if (user, client) != (ABSENT, ABSENT)
]
books = st.dictionaries(st.sampled_from(ENTITIES), st.sampled_from([10.0, 20.0]), max_size=6).map(
    lambda limits: book(
        QuotaState(limits={subject: limits_of({RATE: value}) for subject, value in limits.items()}),
        RATE,
    )
)


@st.composite
def changes(draw):
    """Any two states, or one state and a few edits of it."""
    before = draw(books)
    if draw(st.booleans()):
        return before, draw(books)
    limits = dict(before.limits)
    for subject in draw(st.lists(st.sampled_from(ENTITIES), min_size=1, max_size=3, unique=True)):
        if limits.pop(subject, None) is None:
            limits[subject] = 10.0
    return before, book(
        QuotaState(limits={subject: limits_of({RATE: value}) for subject, value in limits.items()}),
        RATE,
    )


fleets = st.dictionaries(
    st.tuples(st.sampled_from(USERS), st.sampled_from(CLIENTS)), st.integers(1, 1000), max_size=8
)


@settings(max_examples=count_examples(400))
@given(changes(), fleets)
def test_exact_results_are_exact_bounds_hold_and_every_used_bucket_has_a_result(change, fleet):
    before, after = change
    old, new = Counter(), Counter()
    for (user, client), used in fleet.items():
        old[tags_of(before, user, client)] += used
        new[tags_of(after, user, client)] += used
    regrouping = regroup(before, after, old)
    assert regrouping.unexplained == ()
    named = {mapping.bucket: mapping for mapping in regrouping.mapped if not mapping.any_name}
    many = [mapping for mapping in regrouping.mapped if mapping.any_name]
    for bucket, used in new.items():
        mappings = (
            [named[bucket]]
            if bucket in named
            else [mapping for mapping in many if fits(mapping, bucket)]
        )
        assert any(mapping.answer is not Identifiability.NO_DATA for mapping in mappings), bucket
        for mapping in mappings:
            total = sum(old[part] for part in mapping.parts)
            if mapping.answer is Identifiability.EXACT:
                assert total == used
            elif mapping.answer is Identifiability.BOUND:
                assert total >= used
            if mapping.relieved:
                assert used <= old[bucket]
                old_limit = limit_of(before, bucket)
                assert (old_limit[1] if old_limit else None) == mapping.limit
            if bucket in named:
                limit = limit_of(after, bucket)
                assert (limit[1] if limit else None) == mapping.limit
    for mapping in named.values():
        if mapping.bucket not in new and mapping.answer is Identifiability.EXACT:
            pytest.fail(f"{mapping} has exact use, but no client used it")


def fits(mapping, bucket) -> bool:
    """Whether a bucket is one of those to which a mapped one refers."""
    return mapping.bucket.kind is bucket.kind and all(
        mapping_name in ("", bucket_name)
        for mapping_name, bucket_name in (
            (mapping.bucket.user, bucket.user),
            (mapping.bucket.client_id, bucket.client_id),
        )
    )


@settings(max_examples=count_examples(200))
@given(books, fleets)
def test_without_a_change_every_bucket_is_exact_and_unchanged(rules, fleet):
    buckets = {tags_of(rules, user, client) for user, client in fleet}
    regrouping = regroup(rules, rules, buckets)
    assert {mapping.bucket for mapping in regrouping.mapped} == buckets
    assert all(
        mapping.answer is Identifiability.EXACT and not mapping.changed
        for mapping in regrouping.mapped
    )
    assert regrouping.flipped == ()
