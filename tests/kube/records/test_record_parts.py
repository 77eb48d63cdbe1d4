"""The 16 parts of records: every record in exactly one, the same one for ever, and none that a tenant can choose."""

import statistics

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.kube.records.stored_records import PARTS, part_names, part_of, split
from reconciler.quota.entity import entity
from reconciler.quota.ownership import OwnershipRecords
from tests.inventory.samples import ALICE, ENTITIES, RECORD_CHANGES

SALTS = st.text(alphabet="0123456789abcdef", min_size=1, max_size=32)


@given(ENTITIES, SALTS)
def test_an_entity_belongs_to_one_of_the_parts(subject, salt):
    assert part_of(subject, salt) == part_of(subject, salt)
    assert 0 <= part_of(subject, salt) < PARTS


def test_the_parts_of_entities_never_change_between_releases():
    assert PARTS == 16
    subjects = (ALICE, entity(user="bob"), entity(ip=None), entity(user="x", client_id="y"))
    assert [part_of(subject, "5a17") for subject in subjects] == [10, 5, 13, 11]
    assert part_names("lkc-1")[15] == "kquota-9b0557d28b6a7c5e-15"


def test_names_chosen_to_fall_into_one_part_do_not_under_another_salt():
    names = (entity(user=f"user-{number}") for number in range(16_000))
    entities = [subject for subject in names if part_of(subject, "guessed") == 3]
    assert len(entities) > 800
    counts = [0] * PARTS
    for subject in entities:
        counts[part_of(subject, "real")] += 1
    assert max(counts) < 2 * statistics.mean(counts)


@given(st.lists(RECORD_CHANGES, max_size=20), SALTS)
def test_every_record_is_in_exactly_one_part(changes, salt):
    owned = OwnershipRecords(cluster_id="lkc-1").with_changes(changes)
    together = OwnershipRecords(cluster_id="lkc-1", latest_end=owned.latest_end)
    for number, share in split(owned, salt, range(PARTS)).items():
        for section in ("records", "intents", "drift_since", "overrides"):
            some, more = getattr(together, section), getattr(share, section)
            assert some.keys().isdisjoint(more)
            together = replace(together, **{section: {**some, **more}})
        assert together.orphaned.isdisjoint(share.orphaned)
        together = replace(together, orphaned=together.orphaned | share.orphaned)
        assert {part_of(subject, salt) for subject in share.records} <= {number}
    assert together == owned


@given(st.lists(RECORD_CHANGES, max_size=12), SALTS, st.sets(st.integers(0, PARTS - 1)))
def test_some_parts_are_the_same_as_among_all(changes, salt, numbers):
    owned = OwnershipRecords(cluster_id="lkc-1").with_changes(changes)
    everything = split(owned, salt, range(PARTS))
    assert split(owned, salt, numbers) == {number: everything[number] for number in numbers}
