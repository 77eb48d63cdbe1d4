"""Every plan over two entities, with every outcome of every request: each client's limit is that of before or after.

Two entities of all levels with one key; and two entities that overlap, with two keys. Late requests arrive at each
later moment.
"""

import itertools
import os
from collections.abc import Iterator, Sequence

import pytest

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.send_order import SendSchedule
from reconciler.quota.state import QuotaState, limits_of
from tests.quota.log_model import FATES, Chances, breaches, changes_between, drive

LEVELS: tuple[Entity, ...] = tuple(
    entity(user=user, client_id=client)
    for user in (ABSENT, DEFAULT, "alice")
    for client in (ABSENT, DEFAULT, "app")
    if (user, client) != (ABSENT, ABSENT)
)
VALUES = (None, 1.0, 2.0)
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
"""Whether everything is explored (`make small-worlds`) or a part that takes seconds."""

KEYS = (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE)
NEAR, FAR = entity(user="alice", client_id="app"), entity(user=DEFAULT)


def states(entities: Sequence[Entity], keys: Sequence[Key]) -> Iterator[QuotaState]:
    """Every assignment of the three values."""
    for values in itertools.product(VALUES, repeat=len(entities) * len(keys)):
        rows = [values[start : start + len(keys)] for start in range(0, len(values), len(keys))]
        limits = {
            subject: limits_of(
                {key: value for key, value in zip(keys, row, strict=True) if value is not None}
            )
            for subject, row in zip(entities, rows, strict=True)
        }
        yield QuotaState(limits={subject: row for subject, row in limits.items() if any(row)})


def chances(requests: int) -> Iterator[Chances]:
    """Every outcome of every request; a late one arrives at the first or at the last moment."""
    for fates in itertools.product(FATES, repeat=requests):
        yield Chances(fates, (False,) * 8)
        if "lost and late" in fates:
            yield Chances(fates, (True,) * 8)


def unlawful(
    before: QuotaState, after: QuotaState, schedule: type[SendSchedule] = SendSchedule
) -> int:
    """The number of outcomes that violate the law."""
    changes = changes_between(before, after)
    requests = len({(change.removes, change.entity) for change in changes})
    return sum(
        bool(breaches(changes, drive(before, changes, chance, schedule=schedule)[0]))
        for chance in chances(requests)
    )


@pytest.mark.parametrize("near", LEVELS if DEEP else LEVELS[-1:], ids=str)
def test_two_entities_with_one_key_keep_the_law_with_every_outcome(near):
    for far in LEVELS:
        if far == near:
            continue
        possible = list(states((near, far), KEYS[:1]))
        for before, after in itertools.product(possible, repeat=2):
            assert unlawful(before, after) == 0, (before, after)


def test_two_entities_with_two_keys_keep_the_law_with_every_outcome():
    possible = list(states((NEAR, FAR), KEYS))[:: 1 if DEEP else 10]
    for before, after in itertools.product(possible, repeat=2):
        assert unlawful(before, after) == 0, (before, after)
