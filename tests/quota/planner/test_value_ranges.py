"""Ranges of values: the quotas that they cover, and the values that they approve."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner
from reconciler.quota.patterns import EVERYTHING, EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.value_ranges import ValueRange, is_approved
from reconciler.quota.policy import Cause
from reconciler.quota.state import limits_of

RATE = Key.PRODUCER_BYTE_RATE
ALICE = entity(user="alice")
HERS = EntityPattern(user=NamePattern(exact="alice"))
NARROW = ValueRange(entities=HERS, key=RATE, minimum=1e6, maximum=9e8)


def change(before: float | None = None, after: float | None = 2e6, key: Key = RATE) -> QuotaChange:
    claim = Declaration(document="team/one", entity=ALICE, limits=limits_of({key: after or 1.0}))
    return QuotaChange(
        entity=ALICE,
        key=key,
        before=before,
        after=after,
        cause=Cause.SPEC,
        claim=None if after is None else claim,
        owner=Owner(document="old/one"),
    )


@pytest.mark.parametrize(
    ("value", "approved"), [(1e6, True), (9e8, True), (0.9e6, False), (9.1e8, False)]
)
def test_a_narrow_range_approves_the_values_within_it(value, approved):
    assert NARROW.approves(value) is approved


@pytest.mark.parametrize(
    "loose",
    [
        replace(NARROW, minimum=None),
        replace(NARROW, maximum=None),
        replace(NARROW, maximum=1e9),
        replace(NARROW, entities=EVERYTHING),
    ],
)
def test_a_range_wide_enough_for_a_unit_slip_or_without_a_pattern_approves_nothing(loose):
    assert not loose.approves(2e6)


@given(
    least=st.floats(min_value=0.0, max_value=1e12),
    most=st.floats(min_value=0.0, max_value=1e18),
    value=st.floats(min_value=0.0, max_value=1e18),
    slip=st.sampled_from([1e3, 1024.0, 1e6, 1e9]),
)
def test_no_range_approves_a_value_and_its_unit_slip(least, most, value, slip):
    bound = replace(NARROW, minimum=least, maximum=most)
    assert value == 0.0 or not (bound.approves(value) and bound.approves(value * slip))


def test_a_range_of_a_namespace_covers_pairs_that_its_documents_declare_or_declared_last():
    of_team, of_old = (replace(NARROW, namespaces=frozenset({name})) for name in ("team", "old"))
    assert is_approved(change(), (), (of_team,))
    assert not is_approved(change(), (), (of_old,))
    removal = change(before=2e6, after=None)
    assert is_approved(removal, (), (of_old,))
    assert not is_approved(replace(removal, owner=None), (), (of_old,))
