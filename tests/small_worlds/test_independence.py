"""Pairs do not change each other's comparison: two entities with two keys are compared like four separate pairs.

So a law of all histories of one pair (`test_pair_world`) holds for all pairs.
"""

import itertools
from collections.abc import Sequence
from functools import cache

from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import DriftMode, Policy, Rules
from reconciler.quota.state import QuotaState, limits_of

ALICE, BOB = entity(user="alice"), entity(user="bob")
KEYS = (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE)
VALUES = (None, 1.0, 2.0)
TRIPLES = tuple(itertools.product(VALUES, repeat=3))
"""Desired, applied, live."""

RULES = Rules(policy=Policy.SYNC, sync_confirmed=True, drift=DriftMode.CORRECT)
Cells = dict[tuple[Entity, Key], tuple[float | None, float | None, float | None]]


def world(cells: Cells) -> tuple[DesiredState, OwnershipRecords, QuotaState]:
    """Documents, records and live values of some pairs."""
    entities = sorted({subject for subject, _ in cells})
    rows: list[dict[Entity, dict[Key, float]]] = [
        {
            subject: {
                key: values[side]
                for (owner, key), values in cells.items()
                if owner == subject and values[side] is not None
            }
            for subject in entities
        }
        for side in range(3)
    ]
    declared, applied, live = rows
    desired = merge(
        Declaration(document=f"team/{subject[0]}", entity=subject, limits=limits_of(values))
        for subject, values in declared.items()
        if values
    )
    owned = OwnershipRecords(cluster_id="c").with_changes(
        Recorded(entity=subject, key=key, value=value, owner=Owner(document=f"team/{subject[0]}"))
        for subject, values in applied.items()
        for key, value in values.items()
    )
    return desired, owned, QuotaState(limits={s: limits_of(v) for s, v in live.items() if v})


def statements_of(plan: Plan) -> set[object]:
    """The entries of a plan for each pair."""
    return {
        *(
            (change.entity, change.key, change.before, change.after, change.cause)
            for change in plan.changes
        ),
        *(
            (finding.entity, finding.key, finding.cause, finding.action)
            for finding in plan.findings
        ),
        *plan.bookkeeping,
    }


def compared(cells: Cells) -> set[object]:
    desired, owned, live = world(cells)
    return statements_of(compare(desired=desired, owned=owned, live=live, rules=RULES))


@cache
def alone(
    subject: Entity, key: Key, cell: tuple[float | None, ...], exists: bool
) -> frozenset[object]:
    """One pair alone; its document exists if it declares the pair, or if another pair requires it."""
    cells: Cells = {(subject, key): cell}
    if exists and cell[0] is None:
        other_key = next(other_key for other_key in KEYS if other_key is not key)
        cells[subject, other_key] = (1.0, 1.0, 1.0)
    return frozenset(item for item in compared(cells) if _speaks_of(item, key))


def _speaks_of(item: object, key: Key) -> bool:
    return key in item if isinstance(item, tuple) else getattr(item, "key", None) is key


def judge(pairs: Sequence[tuple[Entity, Key]], cells: Sequence[tuple[float | None, ...]]) -> None:
    together: Cells = dict(zip(pairs, cells, strict=True))
    exists = {subject for (subject, _), cell in together.items() if cell[0] is not None}
    expected = {
        item
        for (subject, key), cell in together.items()
        for item in alone(subject, key, cell, subject in exists)
    }
    assert compared(together) == expected, together


def test_two_keys_of_an_entity_are_compared_independently():
    for cells in itertools.product(TRIPLES, repeat=2):
        judge(((ALICE, KEYS[0]), (ALICE, KEYS[1])), cells)


def test_two_entities_are_compared_independently():
    for cells in itertools.product(TRIPLES[::2], TRIPLES[::3], TRIPLES):
        judge(((ALICE, KEYS[0]), (ALICE, KEYS[1]), (BOB, KEYS[0])), cells)
