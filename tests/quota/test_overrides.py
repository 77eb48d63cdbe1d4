"""Overrides: when they are in force, which live values are theirs, and what is new to the guards under them."""

import pytest

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override


def override(value: float | None = 5.0, **more: object) -> Override:
    return Override(
        entity=entity(user="alice"),
        key=Key.PRODUCER_BYTE_RATE,
        value=value,
        until=10.0,
        author="eve",
        reason="why",
        **more,
    )


def test_an_override_is_in_force_until_its_end():
    assert override().in_force(9.9, None)
    assert not override().in_force(10.0, None)
    assert override(declared=3.0).in_force(9.9, 4.0)


def test_a_rollback_is_in_force_while_the_declared_value_is_unchanged():
    back = override(declared=3.0, ends_with_document=True)
    assert back.in_force(9.9, 3.0)
    assert back.in_force(9.9, 3.0000000001)
    assert not back.in_force(9.9, 4.0)
    assert not back.in_force(9.9, None)
    assert not back.in_force(10.0, 3.0)


@pytest.mark.parametrize(
    ("live", "is_own"), [(5.0, True), (3.0, True), (4.0, False), (None, False)]
)
def test_a_live_value_is_that_of_an_override_or_the_one_that_it_found(live, is_own):
    assert override(before=7.0, applied=3.0).has_written(live) is is_own
    assert override(None, before=7.0, applied=3.0).has_written(None)


@pytest.mark.parametrize(
    ("declared", "applied", "is_news"),
    [(6.0, 3.0, True), (6.0, None, True), (7.0, 3.0, False), (3.0, 3.0, False), (None, 3.0, False)],
)
def test_a_declared_value_is_news_if_it_was_neither_live_before_nor_applied(
    declared, applied, is_news
):
    assert override(before=7.0).is_news(declared, applied) is is_news
    taken_back = override(before=7.0, declared=declared, ends_with_document=True)
    assert not taken_back.is_news(declared, applied)
