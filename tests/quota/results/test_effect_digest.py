"""Equal effects have equal digests; whatever a reviewer approves is part of the effect."""

from math import nan

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key, same_value
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.effects import Fallback
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.effect_digest import effect_digest
from reconciler.quota.state import NO_LIMITS
from tests.quota.strategies import entities, numbers

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
ALICE = entity(user="alice")
CHANGE = QuotaChange(entity=ALICE, key=RATE, before=1.0, after=2.0, cause=Cause.SPEC)
DEFAULT_LIMIT = Fallback(entity(user=DEFAULT), RATE, 10.0)
CHANGES = st.lists(
    st.builds(
        QuotaChange,
        entity=entities,
        key=st.sampled_from(Key),
        before=st.none() | numbers,
        after=st.none() | numbers,
        cause=st.sampled_from(Cause),
    ),
    unique_by=lambda change: change.pair,
    max_size=4,
)


@given(CHANGES, st.randoms())
def test_order_and_notes_are_no_part_of_the_effect(changes, random):
    other_changes = [replace(change, note="why", applied=7.0) for change in changes]
    random.shuffle(other_changes)
    assert effect_digest("c", changes) == effect_digest("c", other_changes)


@given(st.sampled_from(Key), *[numbers | st.sampled_from([-0.0, nan, 1e6, 1e6 + 5e-7])] * 2)
def test_values_of_the_same_limit_have_the_same_digest(key, first, second):
    digests = {
        effect_digest("c", [replace(CHANGE, key=key, before=value, after=value)])
        for value in (first, second)
    }
    assert (len(digests) == 1) == same_value(key, first, second)


def test_all_that_a_reviewer_approves_is_part_of_the_effect():
    claim = Declaration(document="team/alice", entity=ALICE, limits=NO_LIMITS)
    removal = replace(CHANGE, after=None)
    effects = [
        [],
        [CHANGE],
        [replace(CHANGE, before=3.0)],
        [replace(CHANGE, before=None)],
        [replace(CHANGE, after=3.0)],
        [replace(CHANGE, key=SHARE)],
        [replace(CHANGE, cause=Cause.DRIFT)],
        [replace(CHANGE, claim=claim)],
        [replace(CHANGE, owner=Owner(document="team/bob"))],
        [CHANGE, replace(CHANGE, key=SHARE)],
        [removal],
        *([replace(CHANGE, entity=entity(user=name))] for name in (DEFAULT, "<default>", "")),
        [replace(CHANGE, entity=entity(client_id=DEFAULT))],
    ]
    limits = [(DEFAULT_LIMIT,), (DEFAULT_LIMIT._replace(value=11.0),), (DEFAULT_LIMIT,) * 2]
    digests = {
        *(effect_digest("c", changes) for changes in effects),
        *(effect_digest("c", [removal], relied_on) for relied_on in limits),
        effect_digest("d", []),
    }
    assert len(digests) == len(effects) + len(limits) + 1


def test_digests_are_stable_between_releases():
    assert effect_digest("kq", [replace(CHANGE, after=None)], [DEFAULT_LIMIT]) == DIGEST


DIGEST = "sha256:5e06aa7c160ce0d0102c8d58ad48514fcf3f3d9bf0add1cf05b03b07859a8b4a"
