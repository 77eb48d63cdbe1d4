"""The decision of one describe about each intent, alone and over every combination of values and times."""

import itertools

import pytest
from hypothesis import given

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import (
    NOBODY,
    SETTLING_SECONDS,
    DriftObserved,
    Intent,
    IntentEnded,
    IntentStarted,
    Orphaned,
    Owner,
    OwnershipRecords,
    RecordDropped,
    Recorded,
)
from reconciler.quota.planner.intent_settlement import has_landed, settle_intents
from reconciler.quota.state import QuotaState, limits_of
from tests.quota.strategies import NOW as WORLD_NOW
from tests.quota.strategies import worlds

BOB, KEY, OWNER = entity(user="bob"), Key.PRODUCER_BYTE_RATE, Owner(document="team/bob")
PAIR, NOW = (BOB, KEY), 1_000_000.0
OPEN, OVER = NOW - SETTLING_SECONDS + 1, NOW - SETTLING_SECONDS


def live(value: float | None) -> QuotaState:
    return QuotaState() if value is None else QuotaState(limits={BOB: limits_of({KEY: value})})


def owned(value: float | None, at: float, *more: object) -> OwnershipRecords:
    intent = IntentStarted(entity=BOB, key=KEY, intent=Intent(value=value, owner=OWNER, at=at))
    return OwnershipRecords(cluster_id="c").with_changes([*more, intent])


def recorded(value: float) -> Recorded:
    return Recorded(entity=BOB, key=KEY, value=value, owner=OWNER)


def test_a_landed_write_of_an_override_that_is_gone_leaves_the_record():
    intent = IntentStarted(entity=BOB, key=KEY, intent=Intent(value=4.0, owner=NOBODY, at=OPEN))
    records = OwnershipRecords(cluster_id="c").with_changes([recorded(2.0), intent])
    settlement = settle_intents(records, live(4.0), now=NOW)
    assert settlement.changes == (IntentEnded(entity=BOB, key=KEY),)
    assert settlement.owned.applied_value(PAIR) == 2.0


def test_an_intended_removal_that_happened_drops_the_record():
    settlement = settle_intents(owned(None, OVER, recorded(4.0)), live(None), now=NOW)
    assert settlement.changes == (RecordDropped(entity=BOB, key=KEY),)
    assert settlement.owned.records == {}


def test_an_intent_from_a_fast_clock_ends_65_seconds_after_the_first_describe():
    ahead = owned(4.0, NOW + 3600)
    first = settle_intents(ahead, live(3.0), now=NOW)
    assert first.owned.intents[PAIR].at == NOW
    second = settle_intents(first.owned, live(3.0), now=NOW + SETTLING_SECONDS)
    assert second.changes == (IntentEnded(entity=BOB, key=KEY),)


def test_an_abandoned_removal_remains_abandoned_when_an_earlier_write_is_recorded():
    orphan = (recorded(3.0), Orphaned(entity=BOB, key=KEY))
    settlement = settle_intents(owned(4.0, OVER, *orphan), live(4.0), now=NOW)
    assert settlement.owned.orphaned == {PAIR}


def test_every_combination_keeps_an_intent_only_if_the_write_may_still_land():
    values, times = (None, 1.0, 2.0), (0.0, OVER, OPEN, NOW)
    for value, live_value, at in itertools.product(values, values, times):
        settlement = settle_intents(owned(value, at), live(live_value), now=NOW)
        assert (PAIR in settlement.owned.intents) == (value != live_value and at > OVER)


@given(worlds())
def test_settlement_is_idempotent_and_changes_nothing_else(world):
    settlement = settle_intents(world.owned, world.live, now=WORLD_NOW)
    again = settle_intents(settlement.owned, world.live, now=WORLD_NOW)
    assert again.changes == ()
    assert again.owned == settlement.owned
    assert not any(isinstance(change, DriftObserved) for change in settlement.changes)
    assert settlement.owned.overrides == world.owned.overrides
    untouched = world.owned.records.keys() - {pair[0] for pair in world.owned.intents}
    for subject in untouched:
        assert settlement.owned.records[subject] == world.owned.records[subject]


@pytest.mark.parametrize(
    ("value", "live_value", "landed"),
    [
        (4.0, 4.0, True),
        (4.0, 5.0, False),
        (4.0, None, False),
        (None, None, True),
        (None, 4.0, False),
    ],
)
def test_an_intent_has_landed_if_its_value_is_live_or_its_removal_is_visible(
    value, live_value, landed
):
    intent = Intent(value=value, owner=OWNER, at=OPEN)
    assert has_landed(PAIR, intent, live(live_value)) is landed
