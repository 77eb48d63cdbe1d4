"""ConfigMaps and back: everything reads back, only changed parts are written, damage is never read as empty."""

import base64
import copy
import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import InventoryError
from reconciler.inventory import format as records_format
from reconciler.kube.records import config_maps as config_maps_module
from reconciler.kube.records.config_maps import (
    config_maps,
    empty_parts,
    gzip_of,
    read,
    unpacked,
    updates,
)
from reconciler.kube.records.stored_records import (
    PARTS,
    LoopMemory,
    StoredRecords,
    part_names,
    part_of,
    selector,
)
from reconciler.quota.entity import entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import (
    Orphaned,
    Owner,
    OwnershipRecords,
    Recorded,
    pair_of,
)
from reconciler.quota.planner.removal_guard import RemovalCount
from tests.inventory.samples import RECORD_CHANGES
from tests.reconcile.scenarios import RATE

ID, SALT = "lkc/1 odd\u202e", "5a17"
NAMES = part_names(ID)
NOTHING = StoredRecords(owned=OwnershipRecords(cluster_id=ID, is_known=False))
FEW = st.lists(RECORD_CHANGES, max_size=8)


def stored_records(*changes, **more):
    owned = OwnershipRecords(cluster_id=ID).with_changes(changes)
    return StoredRecords(owned=owned, salt=SALT, **more)


def maps(value, namespace="kquota"):
    return config_maps(value, namespace=namespace)


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
    value = stored_records(*changes, memory=LoopMemory(removals=removals))
    assert read(ID, maps(value).values()) == value


DOCUMENTS = st.dictionaries(
    st.sampled_from([f"team-{number}/{number}" for number in range(4)]),
    st.sampled_from(["u1", "u2"]),
)


@given(FEW, FEW, DOCUMENTS, DOCUMENTS, st.booleans())
def test_parts_encoded_separately_equal_parts_of_the_complete_encoding(
    first, second, some, uids, is_partial
):
    before = stored_records(*many(20), *first, uids=some)
    after = replace(before, owned=before.owned.with_changes(second))
    among = {pair_of(change)[0] for change in second} if is_partial else None
    if not is_partial:
        after = replace(after, uids=uids)
    changed = config_maps(after, namespace="kquota", before=before, among=among)
    assert {**maps(before), **changed} == maps(after)


@given(FEW, st.randoms())
def test_equal_content_gives_equal_bytes_for_any_history(changes, dice):
    value = stored_records(*changes)
    mixed = {
        name: dict(sorted(getattr(value.owned, name).items(), key=lambda _: dice.random()))
        for name in ("records", "intents", "drift_since", "overrides")
    }
    shuffled = replace(value, owned=replace(value.owned, **mixed))
    assert maps(value) == maps(shuffled)
    assert updates(maps(value), maps(shuffled)) == []


def test_without_config_maps_records_are_unknown_and_written_empty_records_are_known():
    assert read(ID, ()) == NOTHING
    assert read(ID, maps(stored_records()).values()).owned == OwnershipRecords(cluster_id=ID)


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
        assert metadata["labels"][terms[1].split()[0]] in {"first", "part"}
        assert all(len(label) <= 63 for label in metadata["labels"].values())
    assert selector("another") != selector(ID)


# ---- size --------------------------------------------------------------------------------------


def stored_bytes(config_map):
    texts = sum(len(text.encode()) for text in config_map["data"].values())
    return texts + sum(len(base64.b64decode(text)) for text in config_map["binaryData"].values())


def test_a_hundred_thousand_pairs_fit_and_one_changed_pair_rewrites_its_part_alone():
    changes = [
        Recorded(
            entity=entity(user=f"user-{number:05}"),
            key=key,
            value=float(1024 * (number % 9 + 1)),
            owner=Owner(document=f"team-{number % 40}/user-{number:05}", since=1.7e9 + number),
        )
        for number in range(50_000)
        for key in COLUMNS[:2]
    ]
    dice = random.Random(4)
    uids = {change.owner.document: dice.randbytes(16).hex() for change in changes}
    value = stored_records(*changes, uids=uids)
    assert value.owned.pair_count == 100_000
    objects = maps(value)
    assert max(map(stored_bytes, objects.values())) < config_maps_module.MOST_BYTES / 5
    assert read(ID, objects.values()) == value
    subject = changes[0].entity
    after = replace(value, owned=value.owned.with_changes([Orphaned(entity=subject, key=RATE)]))
    changed = config_maps(after, namespace="kquota", before=value, among={subject})
    assert [obj["metadata"]["name"] for obj in updates(objects, changed)] == [
        NAMES[part_of(subject, SALT)]
    ]


def test_a_changed_part_is_packed_once_whatever_its_names_are(monkeypatch):
    packed_sizes = []

    def counted(content):
        packed_sizes.append(len(content))
        return gzip_of(content)

    dice = random.Random(7)
    controls = [chr(code) for code in range(1, 32)]  # Six times as long in JSON.
    changes = [
        Recorded(
            entity=entity(user="".join(dice.choices(controls, k=500)) + str(number)),
            key=RATE,
            value=1.0,
            owner=Owner(document=f"team/{number}"),
        )
        for number in range(2000)
    ]
    before = stored_records(*changes)
    subject = changes[0].entity
    after = replace(before, owned=before.owned.with_changes([Orphaned(entity=subject, key=RATE)]))
    monkeypatch.setattr(config_maps_module, "gzip_of", counted)
    for value, earlier, parts in ((before, None, PARTS), (after, before, 1)):
        packed_sizes.clear()
        assert len(config_maps(value, namespace="x", before=earlier)) == parts
        assert len(packed_sizes) == 2 * parts
    assert max(packed_sizes) < 1_000_000


def test_a_part_that_no_config_map_can_hold_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr(config_maps_module, "MOST_BYTES", 2000)
    with pytest.raises(InventoryError, match=f"do not fit into ConfigMap {NAMES[0]}"):
        maps(stored_records(*many(1000)))


def test_a_part_that_is_too_large_to_be_read_again_is_not_written(monkeypatch):
    monkeypatch.setattr(config_maps_module, "UNPACKED_BYTES", 2000)
    with pytest.raises(InventoryError, match="do not fit"):
        maps(stored_records(*many(1000)))


# ---- damage ------------------------------------------------------------------------------------


def good():
    return maps(stored_records(*many(3)))[NAMES[0]]


def read_with(config_map):
    """The content of complete parts, one of which is replaced."""
    objects = maps(stored_records(*many(3)))
    objects[config_map["metadata"]["name"]] = config_map
    return read(ID, objects.values())


@given(st.sets(st.sampled_from(NAMES), min_size=1, max_size=PARTS - 1))
def test_missing_parts_are_damage_and_not_a_smaller_state(lost):
    objects = maps(stored_records(*many(3)))
    with pytest.raises(InventoryError, match="is missing"):
        read(ID, [config_map for name, config_map in objects.items() if name not in lost])


@given(st.sets(st.sampled_from(NAMES)))
def test_parts_whose_creation_was_interrupted_are_no_records_and_keep_their_salt(created):
    objects = empty_parts(ID, SALT, namespace="kquota")
    back = read(ID, [objects[name] for name in created])
    assert back == (replace(NOTHING, salt=SALT) if created else NOTHING)


def test_parts_with_another_salt_are_damage():
    config_map = maps(replace(stored_records(*many(3)), salt="other"))[NAMES[7]]
    with pytest.raises(InventoryError, match=f"{NAMES[7]} is damaged: it has another salt"):
        read_with(config_map)


@pytest.mark.parametrize(
    "name", ["somebody-elses", f"{NAMES[0]}-backup", f"{NAMES[0][:-2]}-ledger-0-0of1"]
)
def test_a_foreign_name_with_the_labels_of_kquota_is_an_error(name):
    stranger = {"metadata": {**good()["metadata"], "name": name}}
    with pytest.raises(InventoryError, match="but another name") as error:
        read_with(stranger)
    assert f"{NAMES[0]} to {NAMES[15]}" in error.value.hint


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
        read_with(config_map)


def test_a_decompression_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(config_maps_module, "UNPACKED_BYTES", 1000)
    config_map = copy.deepcopy(good())
    config_map["binaryData"] = packed(gzip.compress(b"x" * 100_000))
    with pytest.raises(InventoryError, match="too large"):
        unpacked(config_map)


def test_records_of_another_cluster_id_are_damage():
    foreign = StoredRecords(owned=OwnershipRecords(cluster_id="other"), salt=SALT)
    binary_data = maps(foreign)[part_names("other")[0]]["binaryData"]
    with pytest.raises(InventoryError, match="another cluster id"):
        read_with({**good(), "binaryData": binary_data})


def test_a_pair_in_two_parts_is_damage():
    content = records_format.encode({ID: stored_records(*many(3)).owned})
    objects = maps(stored_records())
    for name in NAMES[:2]:
        objects[name]["binaryData"] |= packed_content(gzip_of(content))
    with pytest.raises(InventoryError, match="duplicates another"):
        read(ID, objects.values())


# ---- comparing -----------------------------------------------------------------------------------


def test_a_changed_part_replaces_the_version_that_was_read():
    before, after = maps(stored_records(*many(3))), maps(stored_records(*many(4)))
    before = {
        name: {**o, "metadata": {**o["metadata"], "resourceVersion": "7"}}
        for name, o in before.items()
    }
    difference = updates(before, after)
    assert [o["metadata"]["resourceVersion"] for o in difference] == ["7"]
    assert updates(before, before) == []


def test_a_part_is_decoded_once_for_each_resource_version():
    objects = [
        {**config_map, "metadata": {**config_map["metadata"], "uid": name, "resourceVersion": "1"}}
        for name, config_map in maps(stored_records(*many(300))).items()
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
    assert {part_of(entity, SALT) for entity in fresh} == {0}
