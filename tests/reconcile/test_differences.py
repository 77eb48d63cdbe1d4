"""Differences as text: the value before, the value now, and the reason."""

import pytest

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.preconditions import Precondition, PreconditionChange
from reconciler.reconcile.differences import difference_text

ALICE, RATE = entity(user="a\n"), Key.PRODUCER_BYTE_RATE


def ground(live=1024.0, applied=None, document="") -> Precondition:
    return Precondition(entity=ALICE, key=RATE, live=live, applied=applied, document=document)


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        (ground(), ground(live=None), "live was 1024 (1 KiB/s), is not set"),
        (ground(applied=5.0), ground(), "last applied was 5 B/s, is -"),
        (ground(document="a/b"), ground(document="c\n"), "was owned by a/b, is owned by c\\u000a"),
        (
            ground(),
            ground(live=2.0, document="x"),
            "live was 1024 (1 KiB/s), is 2 B/s; was owned by no document, is owned by x",
        ),
        (None, ground(), "newly set to 1024 (1 KiB/s); clients of a removal would fall back to it"),
        (
            ground(),
            None,
            "was 1024 (1 KiB/s) and is gone; clients of a removal would have fallen back to it",
        ),
    ],
)
def test_each_difference_is_one_line(then, now, words):
    text = difference_text(PreconditionChange(entity=ALICE, key=RATE, then=then, now=now))
    assert text == f'user="a\\u000a" producer_byte_rate: {words}'
