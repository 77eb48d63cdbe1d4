"""ConfigMaps and back: everything reads back, sizes are bounded, damage is never read as empty."""

import base64
import copy
import gzip
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import InventoryError
from reconciler.inventory import format as records_format
from reconciler.kube.records import config_map_reader
from reconciler.kube.records.config_map_reader import read, unpacked
from reconciler.kube.records.config_maps import config_maps, diff
from reconciler.kube.records.series_layout import ONE, SeriesLayout, current, name_of_part, part_of
from reconciler.kube.records.series_parts import PART_LIMITS, PartLimits, gzip_of, split
from reconciler.kube.records.stored_records import StoredRecords, hash_of, selector
from reconciler.quota.entity import entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import (
    Intent,
    Orphaned,
    Owner,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.planner.removal_guard import RemovalCount
from tests.inventory.samples import ALICE, ENTITIES, RECORD_CHANGES
from tests.reconcile.scenarios import RATE

ID = "lkc/1 odd\u202e"
NOTHING = StoredRecords(owned=OwnershipRecords(cluster_id=ID, is_known=False))
FEW = st.lists(RECORD_CHANGES, max_size=8)


def stored_records(*changes, **more):
    return StoredRecords(owned=OwnershipRecords(cluster_id=ID).with_changes(changes), **more)


def maps(value, namespace="kquota", limits=PART_LIMITS):
    return config_maps(value, namespace=namespace, limits=limits)[1]


def part(owned, series, name):
    """One ConfigMap with this content, for any layout."""
    (config_map,) = maps(NOTHING, "x").values()
    labels = {**config_map["metadata"]["labels"], "kafka-quotas.io/records": series}
    content = records_format.encode({ID: owned})
    return {
        **config_map,
        "metadata": {**config_map["metadata"], "name": name, "labels": labels},
        "binaryData": {
            **config_map["binaryData"],
            "content": base64.b64encode(gzip_of(content)).decode(),
        },
    }


SMALL = PartLimits(packed=16_000)
"""Number of parts for a few hundred records."""


def many(count, *, names=30, seed=1):
    """A given number of released pairs of entities with names that do not compress."""
    dice = random.Random(seed)
    return [
        Recorded(
            entity=entity(user=dice.randbytes(names).hex(), client_id=dice.randbytes(8).hex()),
            key=RATE,
            value=float(dice.randrange(1, 10**9)),
            owner=Owner(document=f"team-{number % 7}/{number}", since=float(number)),
        )
        for number in range(count)
    ]


REMOVALS = st.builds(
    RemovalCount,
    at=st.floats(0, 4e9),
    tenant=st.sampled_from(["", "a", "b"]),
    count=st.integers(1, 50),
)


@given(FEW, st.lists(REMOVALS, max_size=4).map(tuple))
def test_everything_reads_back(changes, removals):
    value = stored_records(*changes, removals=removals)
    laid_out, objects = config_maps(value, namespace="kquota")
    assert read(ID, objects.values()) == replace(
        laid_out, owned=replace(value.owned, is_known=True)
    )
    assert laid_out.owned == value.owned


@given(st.lists(RECORD_CHANGES, max_size=12), st.sampled_from([2, 4, 8]))
def test_everything_reads_back_from_several_parts(changes, parts):
    value = stored_records(*changes)
    layout = SeriesLayout(serial=3, parts=parts)
    objects = {}
    for number, share in enumerate(split(value.owned, parts)):
        name = name_of_part(f"kquota-{hash_of(ID)}-ledger", layout, number)
        objects[name] = part(share, "ledger", name)
    back = read(ID, objects.values())
    assert back.owned == replace(value.owned, is_known=True)
    assert back.layout == layout


DOCUMENTS = st.dictionaries(
    st.sampled_from([f"team-{number}/{number}" for number in range(4)]),
    st.sampled_from(["u1", "u2"]),
)


@given(FEW, FEW, DOCUMENTS, DOCUMENTS)
def test_parts_encoded_separately_equal_parts_of_the_complete_encoding(first, second, some, uids):
    before, objects = config_maps(
        stored_records(*many(300), *first, uids=some), namespace="x", limits=SMALL
    )
    after = replace(before, owned=before.owned.with_changes(second), uids=uids)
    _, updated = config_maps(after, namespace="x", before=before, objects=objects, limits=SMALL)
    _, complete = config_maps(after, namespace="x", limits=SMALL)
    assert updated == complete


@given(FEW, st.randoms())
def test_equal_content_gives_equal_bytes_for_any_history(changes, dice):
    value = stored_records(*changes)
    mixed = {
        name: dict(sorted(getattr(value.owned, name).items(), key=lambda _: dice.random()))
        for name in ("records", "intents", "drift_since", "overrides")
    }
    shuffled = replace(value, owned=replace(value.owned, **mixed))
    assert maps(value) == maps(shuffled)
    assert diff(maps(value), maps(shuffled)).writes == 0


def test_without_config_maps_records_are_unknown_and_written_empty_records_are_known():
    assert read(ID, ()) == replace(NOTHING, layout=ONE)
    objects = maps(NOTHING)
    assert len(objects) == 1
    back = read(ID, objects.values())
    assert back.owned.is_known
    assert back.owned.records == {}


def test_config_maps_are_found_by_label_and_have_no_owner_reference():
    value = stored_records(*many(3))
    for name, config_map in maps(value, namespace="operators").items():
        metadata = config_map["metadata"]
        assert metadata["name"] == name
        assert len(name) <= 253
        assert metadata["namespace"] == "operators"
        assert "ownerReferences" not in metadata
        assert metadata["annotations"]["kafka-quotas.io/cluster-id"] == ID
        terms = selector(ID).split(",")
        assert terms[0].split("=")[1] == metadata["labels"]["kafka-quotas.io/cluster"]
        assert terms[1] in metadata["labels"]
        assert all(len(label) <= 63 for label in metadata["labels"].values())
    assert selector("another") != selector(ID)


# ---- size --------------------------------------------------------------------------------------


def sizes(objects):
    return [len(config_map["binaryData"]["content"]) for config_map in objects.values()]


def test_content_too_large_for_one_part_is_distributed_and_reads_back():
    value = stored_records(*many(8000))
    laid_out, objects = config_maps(value, namespace="kquota")
    assert laid_out.layout.parts >= 2
    assert max(sizes(objects)) <= PART_LIMITS.packed
    assert all(len(json.dumps(config_map)) < 1_000_000 for config_map in objects.values())
    assert read(ID, objects.values()).owned == value.owned


def test_five_thousand_documents_with_three_open_keys_fit_and_leave_one_part_afterwards():
    dice = random.Random(3)
    owners = [
        Owner(document=f"team-{n % 40}/{dice.randbytes(6).hex()}", since=float(n))
        for n in range(5000)
    ]
    intents = {
        (entity(user=dice.randbytes(12).hex()), key): Intent(
            value=float(dice.randrange(10**9)), owner=owner, at=1_700_000_000.5
        )
        for owner in owners
        for key in COLUMNS[:3]
    }
    assert len(intents) == 15_000
    before, objects = config_maps(stored_records(), namespace="x")
    value = replace(before, owned=OwnershipRecords(cluster_id=ID, intents=intents))
    during, under_way = config_maps(value, namespace="x")
    assert max(sizes(under_way)) <= PART_LIMITS.packed
    assert read(ID, under_way.values()).owned == value.owned
    after, final_objects = config_maps(
        replace(during, owned=OwnershipRecords(cluster_id=ID)), namespace="x"
    )
    assert len(final_objects) == 1
    assert after.layout.parts == 1
    assert diff(under_way, final_objects).create
    assert set(diff(under_way, final_objects).delete) == set(under_way)
    assert diff(objects, under_way).delete == tuple(objects)


def test_a_batch_of_a_hundred_documents_writes_each_part_once():
    before, objects = config_maps(stored_records(*many(500)), namespace="x")
    intents = {
        (entity(user=f"user-{number}"), key): Intent(
            value=1.0, owner=Owner(document=f"team/{number}")
        )
        for number in range(100)
        for key in COLUMNS[:3]
    }
    _, during = config_maps(
        replace(before, owned=replace(before.owned, intents=intents)), namespace="x"
    )
    assert diff(objects, during).writes == before.layout.parts == 4
    assert diff(during, objects).writes == 4


def test_one_changed_pair_changes_one_part_of_many():
    value, objects = config_maps(stored_records(*many(500)), namespace="x", limits=SMALL)
    subject = next(iter(value.owned.records))
    changed = replace(value, owned=value.owned.with_changes([Orphaned(entity=subject, key=RATE)]))
    difference = diff(objects, config_maps(changed, namespace="x", limits=SMALL)[1])
    assert difference.writes == 1
    assert len(difference.update) == 1


def test_content_above_the_largest_layout_is_an_error():
    with pytest.raises(InventoryError, match="do not fit"):
        maps(stored_records(*many(300)), limits=PartLimits(packed=2000, parts=2))


# ---- layouts and crashes -------------------------------------------------------------------------


@pytest.mark.parametrize("deleted", [True, False])
@pytest.mark.parametrize("written", [set(), {0}, {1}, {0, 1}, {0, 2, 3}, set(range(64))])
def test_after_a_crash_between_two_layouts_one_of_them_is_read(written, deleted):
    """New parts are created before old ones are deleted: until all exist, the old layout counts."""
    old, old_objects = config_maps(stored_records(*many(40)), namespace="x", limits=SMALL)
    grown = replace(old, owned=old.owned.with_changes(many(500, seed=2)))
    new, new_objects = config_maps(grown, namespace="x", limits=SMALL)
    difference = diff(old_objects, new_objects)
    created = [
        config_map
        for config_map in difference.create
        if "-ledger-" in config_map["metadata"]["name"]
    ]
    some = [config_map for number, config_map in enumerate(created) if number in written]
    stored = {**old_objects, **{config_map["metadata"]["name"]: config_map for config_map in some}}
    if len(some) < len(created):
        assert read(ID, stored.values()).owned.records == old.owned.records
        return
    if deleted:
        stored = {
            name: config_map for name, config_map in stored.items() if name not in difference.delete
        }
    back = read(ID, stored.values())
    assert back.owned.records == grown.owned.records
    assert back.layout == new.layout


def test_a_missing_part_is_damage_and_not_a_smaller_state():
    _, objects = config_maps(stored_records(*many(500)), namespace="x", limits=SMALL)
    lost = next(name for name in objects if "-ledger-" in name)
    with pytest.raises(InventoryError, match="missing"):
        read(ID, [config_map for name, config_map in objects.items() if name != lost])


@pytest.mark.parametrize("is_partial", [True, False])
def test_parts_of_an_older_layout_after_a_crash_are_deleted_by_the_next_write(is_partial):
    old, old_objects = config_maps(stored_records(*many(40)), namespace="x", limits=SMALL)
    new_objects = maps(replace(old, owned=old.owned.with_changes(many(500, seed=2))), "x", SMALL)
    objects = {**old_objects, **new_objects}
    stored = read(ID, objects.values())
    earlier = {"before": stored, "objects": objects} if is_partial else {}
    again = config_maps(stored, namespace="x", limits=SMALL, **earlier)[1]
    stale = diff(objects, again)
    assert (stale.create, stale.update) == ((), ())
    assert all("-0-0of1" in name for name in stale.delete)
    assert stale.writes == 1


@given(st.integers(0, 9), st.integers(1, 9))
def test_names_of_parts_contain_their_layout(serial, parts):
    layout = SeriesLayout(serial=serial, parts=parts)
    names = {name_of_part("p", layout, number) for number in range(parts)}
    assert current("p", names)[0] == layout


def test_a_foreign_name_with_the_labels_of_kquota_is_an_error():
    with pytest.raises(InventoryError, match="but another name"):
        current("kquota-x-records", {"somebody-elses"})
    with pytest.raises(InventoryError, match="but another name"):
        current("kquota-x-records", {"kquota-x-ledger-backup"})


@given(ENTITIES)
def test_the_part_of_an_entity_is_deterministic(subject):
    assert part_of(subject, 8) == part_of(subject, 8) < 8


def test_the_parts_of_entities_never_change_between_releases():
    assert [part_of(ALICE, 1024), part_of(entity(ip=None), 1024)] == [627, 767]


# ---- damage ------------------------------------------------------------------------------------


def good():
    return next(
        config_map
        for name, config_map in maps(stored_records(*many(3))).items()
        if "-ledger-" in name
    )


def packed(content: bytes) -> dict:
    return {**good()["binaryData"], "content": base64.b64encode(content).decode()}


def packed_content(content: bytes) -> dict:
    return {"content": base64.b64encode(content).decode()}


DAMAGE = {
    "no content": {},
    "not base64": {"content": "***", "documents": ""},
    "damaged uids": {**packed(gzip.compress(b"{}")), "documents": "***"},
    "not gzip": packed(b"hello"),
    "cut off": packed(gzip.compress(b"x" * 500)[:-3]),
    "something behind it": packed(gzip.compress(b"{}") + b"more"),
    "no JSON": packed(gzip.compress(b"{")),
    "another format": packed(
        gzip.compress(b'{"kind":"kquota-inventory","format":9,"clusters":{}}')
    ),
    "no cluster": packed(gzip.compress(b'{"kind":"kquota-inventory","format":1,"clusters":{}}')),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_an_error_that_names_the_config_map(case):
    config_map = copy.deepcopy(good())
    config_map["binaryData"] = DAMAGE[case]
    with pytest.raises(InventoryError, match=config_map["metadata"]["name"]):
        read(ID, [config_map])


def test_a_decompression_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(config_map_reader, "UNPACKED_BYTES", 1000)
    config_map = copy.deepcopy(good())
    config_map["binaryData"] = packed(gzip.compress(b"x" * 100_000))
    with pytest.raises(InventoryError, match="too large"):
        unpacked(config_map)


def test_records_of_another_cluster_id_are_damage():
    config_map = copy.deepcopy(good())
    other_objects = maps(
        StoredRecords(owned=OwnershipRecords(cluster_id="other").with_changes(many(3)))
    )
    name = next(name for name in other_objects if "-ledger-" in name)
    config_map["binaryData"] = other_objects[name]["binaryData"]
    with pytest.raises(InventoryError, match="another cluster id"):
        read(ID, [config_map])


def test_a_pair_in_two_parts_is_damage():
    layout = SeriesLayout(serial=1, parts=2)
    several = []
    for number in range(2):
        name = name_of_part(f"kquota-{hash_of(ID)}-ledger", layout, number)
        several.append(part(stored_records(*many(3)).owned, "ledger", name))
    with pytest.raises(InventoryError, match="duplicates another"):
        read(ID, several)


@pytest.mark.parametrize("text", ["{", "5", "[[1]]", '[["1", 2]]', "[[1, -2]]", "[[1, true]]"])
def test_damaged_removals_are_an_error(text):
    config_map = next(iter(maps(NOTHING).values()))
    with pytest.raises(InventoryError, match="removals"):
        read(ID, [{**config_map, "data": {"removals": text}}])


def test_an_unexpected_label_value_is_an_error():
    config_map = copy.deepcopy(good())
    config_map["metadata"]["labels"]["kafka-quotas.io/records"] = "other"
    with pytest.raises(InventoryError, match="other"):
        read(ID, [config_map])


# ---- comparing -----------------------------------------------------------------------------------


def test_a_difference_lists_objects_to_create_update_and_delete():
    before, after = maps(stored_records(*many(3))), maps(stored_records(*many(4)))
    before = {
        name: {**o, "metadata": {**o["metadata"], "resourceVersion": "7"}}
        for name, o in before.items()
    }
    difference = diff({**before, "stale": {}}, after)
    assert difference.create == ()
    assert [o["metadata"]["resourceVersion"] for o in difference.update] == ["7"]
    assert difference.delete == ("stale",)
    assert len(diff({}, after).create) == 1


def test_content_compressed_by_another_zlib_counts_as_equal():
    objects = maps(stored_records(*many(30)))
    repacked = copy.deepcopy(objects)
    for config_map in repacked.values():
        config_map["binaryData"] |= packed_content(gzip.compress(unpacked(config_map), 1))
    assert repacked != objects
    assert diff(repacked, objects).writes == 0


def test_a_damaged_part_is_written_again():
    objects = maps(stored_records(*many(3)))
    broken = copy.deepcopy(objects)
    name = next(iter(broken))
    broken[name]["binaryData"] = {}
    assert [config_map["metadata"]["name"] for config_map in diff(broken, objects).update] == [name]


def test_removals_are_readable_as_plain_text():
    counts = [
        RemovalCount(at=at, tenant=tenant, count=count)
        for at, tenant, count in ((1.0, "a", 3), (5.5, "a", 2), (5.5, "b", 1))
    ]
    objects = maps(stored_records(removals=tuple(counts)))
    assert [config_map["data"] for config_map in objects.values()] == [
        {
            "removals": '[{"tenant":"a","count":3,"at":1.0},{"tenant":"a","count":2,"at":5.5},'
            '{"tenant":"b","count":1,"at":5.5}]',
        }
    ]


def test_a_part_is_decoded_once_for_each_resource_version():
    parts_by_name = maps(stored_records(*many(300)), limits=SMALL)
    objects = [
        {**config_map, "metadata": {**config_map["metadata"], "uid": name, "resourceVersion": "1"}}
        for name, config_map in parts_by_name.items()
    ]
    decoded = {}
    first = read(ID, objects, decoded)
    again = read(ID, objects, decoded)
    assert all(
        again.owned.records[entity] is record for entity, record in first.owned.records.items()
    )
    newer = {**objects[0], "metadata": {**objects[0]["metadata"], "resourceVersion": "2"}}
    renewed = read(ID, [newer, *objects[1:]], decoded)
    fresh = [
        entity
        for entity, record in first.owned.records.items()
        if renewed.owned.records[entity] is not record
    ]
    assert renewed == first
    assert {part_of(entity, len(objects)) for entity in fresh} == {0}
