"""Ownership records: the effect of each change, and no other effect."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import entity, sort_key
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import (
    NOBODY,
    SETTLING_SECONDS,
    DriftObserved,
    Intent,
    IntentStarted,
    Orphaned,
    OverrideSet,
    OverrideWritten,
    Owner,
    OwnershipRecords,
    ProjectNamed,
    RecordDropped,
    Recorded,
)
from tests.quota.strategies import inventories, owners, pairs, whole_numbers

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
PAIR = (ALICE, RATE)
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


def test_drift_keeps_the_time_of_its_first_observation():
    records = after(
        DriftObserved(entity=ALICE, key=RATE, at=1.0), DriftObserved(entity=ALICE, key=RATE, at=2.0)
    )
    assert records.drift_since == {PAIR: 1.0}
    assert after(DriftObserved(entity=ALICE, key=RATE, at=None), owned=records).drift_since == {}


def test_a_write_may_land_as_long_as_the_broker_retries_it():
    intent = Intent(value=1.0, owner=ONE, at=100.0)
    assert intent.may_still_land(100.0 + SETTLING_SECONDS - 0.1)
    assert not intent.may_still_land(100.0 + SETTLING_SECONDS)


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


def test_a_part_has_the_records_of_its_entities_and_no_others():
    part = EVERY_KIND.part({ALICE})
    assert (list(part.records), list(part.intents)) == ([ALICE], [PAIR])
    assert (list(part.drift_since), list(part.overrides)) == ([PAIR], [PAIR])
    assert part.orphaned == frozenset()
    assert EVERY_KIND.part({BOB}).orphaned == {(BOB, RATE)}
    assert EVERY_KIND.orphan_count == 1


def test_an_unchanged_part_leaves_the_same_records():
    again = EVERY_KIND.with_part({ALICE}, EVERY_KIND.part({ALICE}))
    assert again == EVERY_KIND
    assert again.records is EVERY_KIND.records


def test_a_part_that_lost_everything_removes_its_entities_only():
    remaining = EVERY_KIND.with_part({ALICE}, EMPTY)
    assert remaining == replace(EVERY_KIND.part({BOB}), is_known=True)


def test_a_value_written_above_a_record_leaves_it_and_settles_the_write():
    begun = after(
        recorded(),
        OverrideSet(override=override()),
        IntentStarted(entity=ALICE, key=RATE, intent=Intent(value=5.0, owner=NOBODY)),
    )
    written = begun.with_changes([OverrideWritten(entity=ALICE, key=RATE, value=5.0)])
    assert (written.records, written.intents) == (begun.records, {})
    assert written.overrides[PAIR].applied == 5.0


def test_a_value_written_where_the_override_is_gone_settles_its_write_alone():
    written = after(intend(), OverrideWritten(entity=ALICE, key=RATE, value=2.0))
    assert written == EMPTY


def test_a_pair_has_the_value_and_the_owner_of_its_record():
    owned = after(recorded(), recorded(Key.CONSUMER_BYTE_RATE, TWO))
    assert (owned.applied_value(PAIR), owned.owner_of(PAIR)) == (1.0, ONE)
    assert (EMPTY.applied_value(PAIR), EMPTY.owner_of(PAIR)) == (None, None)
    assert list(owned.owners()) == [(ALICE, ONE), (ALICE, TWO)]


def test_records_have_the_name_of_the_project_that_was_given_last():
    named = after(ProjectNamed(project="payments/prod"), ProjectNamed(project="payments/new"))
    assert (named.project, EMPTY.project) == ("payments/new", "")
