"""Scopes overlap exactly if an entity is in both; the error for a refused writer contains the next step."""

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import PlanRefused
from reconciler.inventory.writers import (
    FORGOTTEN_AFTER_SECONDS,
    InventoryWriter,
    RecordedWriter,
    check_alone,
    scopes_overlap,
    with_writer,
    writer_from_json,
    writer_to_json,
)
from reconciler.quota.entity import ABSENT, DEFAULT, entity
from reconciler.quota.patterns import EntityForm, EntityPattern, NamePattern

WORDS = ("", "a", "ab", "abc", "b")
NAMES = st.one_of(
    st.builds(lambda w: NamePattern(exact=w), st.sampled_from(WORDS)),
    st.builds(lambda w: NamePattern(prefix=w), st.sampled_from(WORDS)),
)
PATTERNS = st.one_of(
    st.builds(
        EntityPattern,
        forms=st.frozensets(st.sampled_from(EntityForm), min_size=1),
        user=st.none() | NAMES,
        client_id=st.none() | NAMES,
        ip=st.none() | NAMES,
    ),
    st.builds(EntityPattern, user=NAMES, client_id=st.none() | NAMES),
    st.builds(EntityPattern, ip=NAMES),
)
SLOTS = (ABSENT, DEFAULT, *WORDS, "abx")
ENTITIES = [
    *(entity(user=u, client_id=c) for u in SLOTS for c in SLOTS if (u, c) != (ABSENT, ABSENT)),
    *(entity(ip=i) for i in SLOTS if i is not ABSENT),
]
SCOPES = st.lists(PATTERNS, max_size=2).map(tuple)


def covers(scope: tuple[EntityPattern, ...], subject) -> bool:
    return not scope or any(pattern.matches(subject) for pattern in scope)


@given(SCOPES, SCOPES)
def test_two_scopes_overlap_exactly_if_an_entity_is_in_both(scope, second_scope):
    meeting = any(covers(scope, e) and covers(second_scope, e) for e in ENTITIES)
    assert scopes_overlap(scope, second_scope) == meeting
    assert scopes_overlap(second_scope, scope) == meeting


def test_scopes_with_two_spellings_of_an_address_overlap():
    """Brokers apply the limit of the address: two writers of two spellings would change each other's limit."""
    address, spelling = NamePattern(exact="10.0.0.1"), NamePattern(exact="::ffff:10.0.0.1")
    for first, second in (
        (address, spelling),
        (spelling, NamePattern(prefix="10.0.")),
    ):
        scope, second_scope = (EntityPattern(ip=first),), (EntityPattern(ip=second),)
        assert scopes_overlap(scope, second_scope)
        assert scopes_overlap(second_scope, scope)
    users = (EntityPattern(user=address),), (EntityPattern(user=spelling),)
    assert not scopes_overlap(*users)


@given(SCOPES, st.text(), st.floats(min_value=0, max_value=4e9))
def test_a_writer_reads_back(scope, name, last_seen):
    writer = RecordedWriter(
        writer=InventoryWriter(id=name, description="x", scope=scope), last_seen=last_seen
    )
    assert writer_from_json(writer_to_json(writer)) == writer


IDS = st.sampled_from(["kquota:prod", "kquota:test", "kquota:old name", "kquota:addresses"])
WRITERS = st.builds(InventoryWriter, id=IDS, description=st.just("kquota apply"), scope=SCOPES)
LAST_SEEN = st.sampled_from([1e9, 1e9 - FORGOTTEN_AFTER_SECONDS])
RECORDED = st.lists(st.builds(RecordedWriter, writer=WRITERS, last_seen=LAST_SEEN)).map(
    lambda writers: {recorded.writer.id: recorded for recorded in writers}
)


@given(WRITERS, RECORDED)
def test_a_refused_writer_continues_with_the_options_named_in_the_refusal(writer, recorded):
    """Otherwise no incident in a cluster with a new name could be handled for a month."""
    overlapping = {
        name
        for name, recorded_writer in recorded.items()
        if name != writer.id
        and recorded_writer.last_seen == 1e9
        and scopes_overlap(writer.scope, recorded_writer.writer.scope)
    }
    if overlapping:
        with pytest.raises(PlanRefused) as caught:
            check_alone(writer, recorded, now=1e9)
        words = shlex.split(caught.value.hint.rpartition(": ")[2])
        assert words[:2] == ["kquota", "apply"]
        assert set(words[2::2]) == {"--forget-writer"}
        writer = replace(writer, forgets=frozenset(words[3::2]))
        assert writer.forgets == overlapping
    check_alone(writer, recorded, now=1e9)
    after = with_writer(writer, recorded, now=1e9)
    assert after.keys() == {*recorded, writer.id} - overlapping
    check_alone(replace(writer, forgets=frozenset()), after, now=1e9)


@given(WRITERS, RECORDED)
def test_a_writer_of_single_pairs_is_accepted_beside_all_writers_and_is_not_recorded(
    writer, recorded
):
    writer = replace(writer, manages=False)
    check_alone(writer, recorded, now=1e9)
    assert with_writer(writer, recorded, now=1e9) == recorded
