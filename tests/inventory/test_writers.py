"""Scopes overlap exactly if some entity lies in both."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.inventory.writers import (
    InventoryWriter,
    RecordedWriter,
    scopes_overlap,
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
def test_two_scopes_overlap_exactly_if_some_entity_lies_in_both(scope, second_scope):
    meeting = any(covers(scope, e) and covers(second_scope, e) for e in ENTITIES)
    assert scopes_overlap(scope, second_scope) == meeting
    assert scopes_overlap(second_scope, scope) == meeting


@given(SCOPES, st.text(), st.floats(min_value=0, max_value=4e9))
def test_a_writer_reads_back(scope, name, last_seen):
    writer = RecordedWriter(
        writer=InventoryWriter(id=name, description="x", scope=scope), last_seen=last_seen
    )
    assert writer_from_json(writer_to_json(writer)) == writer
