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
    Identifiability,
    regroup,
)
from reconciler.usage.tags import KeyLimits, book, bucket_of, limit_of, tags_of
from tests.hypothesis_profiles import count_examples

RATE = Key.PRODUCER_BYTE_RATE

ALICE = entity(user="alice")
ANY_USER = entity(user=DEFAULT)


def of(*entities, value=100.0) -> KeyLimits:
    rows = {subject: limits_of({RATE: value}) for subject in entities}
    return book(QuotaState(limits=rows), RATE)


def test_with_a_custom_callback_nothing_is_identifiable():
    regrouping = regroup(of(ALICE), of(ANY_USER), [bucket_of("alice")], blind=CUSTOM_CALLBACK)
    assert {mapping.answer for mapping in regrouping.mapped} == {Identifiability.NOT_IDENTIFIABLE}
    assert {mapping.reason for mapping in regrouping.mapped} == {CUSTOM_CALLBACK}


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
