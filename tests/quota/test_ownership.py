"""Ownership records: the effect of each change, and no other effect."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import entity, sort_key
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    DriftObserved,
    Intent,
    IntentStarted,
    Orphaned,
    OverrideSet,
    Owner,
    OwnershipRecords,
    RecordDropped,
    Recorded,
)
from tests.quota.strategies import inventories, owners, pairs, whole_numbers

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
ONE, TWO = Owner(document="t/one"), Owner(document="t/two")
EMPTY = OwnershipRecords(cluster_id="c")


def after(*changes: object, owned: OwnershipRecords = EMPTY) -> OwnershipRecords:
    return owned.with_changes(changes)


def recorded(key: Key = RATE, owner: Owner = ONE) -> Recorded:
    return Recorded(entity=ALICE, key=key, value=1.0, owner=owner)


def intend() -> IntentStarted:
    return IntentStarted(entity=ALICE, key=RATE, intent=Intent(value=2.0, owner=TWO))


def override(value: float | None = 5.0, **more: object) -> Override:
    return Override(
        entity=ALICE, key=RATE, value=value, until=10.0, author="eve", reason="why", **more
    )


@given(inventories(), pairs, whole_numbers, owners)
def test_recording_a_pair_changes_this_pair_only(owned, pair, value, owner):
    subject, key = pair
    changed = owned.with_changes([Recorded(entity=subject, key=key, value=value, owner=owner)])
    record = changed.records[subject]
    assert record.applied[COLUMNS.index(key)] == value
    assert record.owners[COLUMNS.index(key)] == owner
    other_records = {s: r for s, r in changed.records.items() if s != subject}
    assert other_records == {s: r for s, r in owned.records.items() if s != subject}
    back = changed.with_changes([RecordDropped(entity=subject, key=key)])
    assert back.records == owned.with_changes([RecordDropped(entity=subject, key=key)]).records


@given(inventories())
def test_owners_exist_exactly_where_values_do_and_no_record_is_empty(owned):
    for record in owned.records.values():
        assert [v is None for v in record.applied] == [o is None for o in record.owners]
        assert any(record.owners)
    values = [v for record in owned.records.values() for v in record.applied if v is not None]
    assert owned.pair_count == len(values)


@given(inventories(), st.lists(st.sampled_from([recorded(), intend()]), max_size=3))
def test_changes_give_the_same_records_one_by_one_or_together(owned, changes):
    one_by_one = owned
    for change in changes:
        one_by_one = one_by_one.with_changes([change])
    assert one_by_one == owned.with_changes(changes)


@given(inventories(), st.data())
def test_the_records_of_some_entities_and_of_the_others_are_all_records(owned, data):
    subjects = sorted(
        {*owned.records}
        | {
            pair[0]
            for pair in (*owned.intents, *owned.drift_since, *owned.orphaned, *owned.overrides)
        },
        key=sort_key,
    )
    selection = {subject for subject in subjects if data.draw(st.booleans())}
    part, remainder = owned.part(selection), owned.part({*subjects} - selection)
    assert {**part.records, **remainder.records} == {**owned.records}
    assert {**part.intents, **remainder.intents} == {**owned.intents}
    assert {**part.drift_since, **remainder.drift_since} == {**owned.drift_since}
    assert part.orphaned | remainder.orphaned == owned.orphaned
    assert {**part.overrides, **remainder.overrides} == {**owned.overrides}
    assert not {*part.records} & {*remainder.records}
    assert part.cluster_id == owned.cluster_id


BOB = entity(user="bob")
EVERY_KIND = after(
    recorded(),
    Recorded(entity=BOB, key=RATE, value=3.0, owner=TWO),
    intend(),
    IntentStarted(entity=BOB, key=RATE, intent=Intent(value=4.0, owner=TWO)),
    DriftObserved(entity=ALICE, key=RATE, at=9.0),
    Orphaned(entity=BOB, key=RATE),
    OverrideSet(override=override()),
)


def test_a_part_that_lost_everything_removes_its_entities_only():
    remaining = EVERY_KIND.with_part({ALICE}, EMPTY)
    assert remaining == replace(EVERY_KIND.part({BOB}), is_known=True)
