"""Records in statuses: everything reads back, damage is never taken for empty, a name is not an identity."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import InventoryError
from reconciler.kube.api.custom_resources import time_text
from reconciler.kube.records.live_records import (
    live_documents,
    records_outside_statuses,
)
from reconciler.kube.records.status_records import (
    DEPARTED,
    drift_of,
    entity_of,
    entries_of,
    key_record_fields,
    owned_from,
    release,
)
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import COLUMNS
from reconciler.quota.ownership import (
    DriftObserved,
    Intent,
    IntentStarted,
    Orphaned,
    Owner,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.policy import DeletionPolicy
from reconciler.render.names import entity_text
from tests.kube.worlds import resource, slots
from tests.quota import strategies as some
from tests.reconcile.worlds import ALICE, BOB, CONSUME, RATE

ID = "lkc-1"
NONE = OwnershipRecords(cluster_id=ID, is_known=False)
ANY = RATE


def recorded(document, subject, key, value, *, policy=None, since=5.0):
    owner = Owner(document=document, deletion_policy=policy, since=since)
    return Recorded(entity=subject, key=key, value=value, owner=owner)


def with_status(obj, owned, *, cluster_id=ID, applied_at="2024-01-01T00:00:00Z"):
    """The object with what the records say of it in its status."""
    document = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
    subject = entity_of(obj)
    keys, drift = [], []
    for key in COLUMNS:
        fields = key_record_fields(owned, document, subject, key)
        if fields:
            keys.append({"key": key.value, "appliedAt": applied_at, **fields})
        at = owned.drift_since.get((subject, key))
        if at is not None and fields:
            drift.append({"key": key.value, "firstSeen": time_text(at)})
    return obj | {"status": {"clusterId": cluster_id, "keys": keys, "drift": drift}}


def quota(document, subject):
    namespace, _, name = document.partition("/")
    return resource(name, subject, {ANY: 1}, namespace=namespace)


@st.composite
def worlds(draw):
    """Records, and documents of which each holds one entity."""
    owned = draw(some.inventories())
    names = draw(st.lists(st.sampled_from(some.DOCUMENTS), unique=True))
    holders = {name: draw(st.sampled_from(some.FEW)) for name in names}
    drifting = draw(st.sets(st.sampled_from(sorted(_pairs(owned), key=str)), max_size=3)) if _pairs(owned) else set()  # fmt: skip
    seen = [DriftObserved(entity=one, key=key, at=7.0) for one, key in drifting]
    # Times in statuses are whole seconds, and an intent of a status has none.
    return owned.with_changes(seen), holders


def _pairs(owned):
    return [
        (subject, key)
        for subject, record in owned.records.items()
        for key, value in zip(COLUMNS, record.applied, strict=True)
        if value is not None
    ]


@given(worlds())
def test_what_statuses_and_the_rest_hold_together_is_everything(world):
    owned, holders = world
    objects = [with_status(quota(name, subject), owned) for name, subject in holders.items()]
    rest = records_outside_statuses(owned, live_documents(objects))
    back = owned_from(owned.cluster_id, [_with_id(one, owned) for one in objects], rest)
    assert _plain(back) == _plain(owned)
    assert back == replace(_renamed(owned, holders), is_known=owned.is_known)


def _with_id(obj, owned):
    return obj | {"status": obj["status"] | {"clusterId": owned.cluster_id}}


def _renamed(owned, holders):
    """The records as they should be called where a document of the same name holds another entity."""
    changes = [
        Recorded(
            entity=subject,
            key=key,
            value=value,
            owner=replace(owner, document=owner.document + DEPARTED),
        )
        for subject, record in owned.records.items()
        for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True)
        if owner is not None
        and value is not None
        and owner.document in holders
        and holders[owner.document] != subject
    ]
    made = owned.with_changes(changes)
    intents = {
        pair: replace(one, owner=replace(one.owner, document=one.owner.document + DEPARTED))
        if holders.get(one.owner.document, pair[0]) != pair[0]
        else one
        for pair, one in owned.intents.items()
    }
    return replace(owned, records=made.records, intents=intents, is_known=owned.is_known)


def _plain(owned):
    """The records with the mark of departed documents taken off."""
    return {
        "records": {
            (subject, key): (value, _bare(owner))
            for subject, record in owned.records.items()
            for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True)
            if value is not None
        },
        "intents": {
            pair: replace(one, owner=_bare(one.owner)) for pair, one in owned.intents.items()
        },
        "drift": dict(owned.drift_since),
        "orphaned": owned.orphaned,
        "overrides": dict(owned.overrides),
    }


def _bare(owner):
    return replace(owner, document=owner.document.removesuffix(DEPARTED))


def test_records_of_another_cluster_id_are_left_alone():
    owned = NONE.with_changes([recorded("team/a", ALICE, RATE, 5.0)])
    obj = with_status(quota("team/a", ALICE), owned, cluster_id="another")
    assert owned_from(ID, [obj], NONE) == NONE


def test_no_record_anywhere_is_not_known():
    assert not owned_from(ID, [quota("team/a", ALICE)], NONE).is_known
    owned = NONE.with_changes([recorded("team/a", ALICE, RATE, 5.0)])
    assert owned_from(ID, [with_status(quota("team/a", ALICE), owned)], NONE).is_known


def test_a_live_documents_record_beats_the_rest_and_ends_orphanhood():
    rest = NONE.with_changes(
        [recorded("team/old", ALICE, RATE, 1.0), Orphaned(entity=ALICE, key=RATE)]
    )
    mine = NONE.with_changes([recorded("team/a", ALICE, RATE, 5.0)])
    back = owned_from(ID, [with_status(quota("team/a", ALICE), mine)], rest)
    assert back.records[ALICE].applied[0] == 5.0
    assert back.records[ALICE].owners[0].document == "team/a"
    assert back.orphaned == frozenset()


def test_a_document_that_was_released_and_is_still_there_stays_orphaned():
    rest = NONE.with_changes(
        [recorded("team/a", ALICE, RATE, 5.0), Orphaned(entity=ALICE, key=RATE)]
    )
    obj = with_status(quota("team/a", ALICE), rest)
    assert owned_from(ID, [obj], rest).orphaned == {(ALICE, RATE)}


def test_what_a_deleted_document_kept_is_not_the_new_ones_of_its_name():
    rest = NONE.with_changes(
        [
            recorded("team/a", ALICE, RATE, 5.0, policy=DeletionPolicy.RETAIN),
            Orphaned(entity=ALICE, key=RATE),
        ]
    )
    back = owned_from(ID, [quota("team/a", BOB)], rest)
    assert back.records[ALICE].owners[0].document == "team/a (deleted)"
    assert back.orphaned == {(ALICE, RATE)}


def test_of_two_documents_that_both_record_a_pair_the_later_write_has_it():
    old = NONE.with_changes([recorded("team/a", ALICE, RATE, 1.0)])
    new = NONE.with_changes([recorded("team/b", ALICE, RATE, 2.0)])
    objects = [
        with_status(quota("team/b", ALICE), new, applied_at="2024-01-02T00:00:00Z"),
        with_status(quota("team/a", ALICE), old, applied_at="2024-01-01T00:00:00Z"),
    ]
    for several in (objects, objects[::-1]):
        back = owned_from(ID, several, NONE)
        assert back.records[ALICE].owners[0].document == "team/b"
        assert back.records[ALICE].applied[0] == 2.0


def test_an_intent_of_the_ledger_beats_one_of_a_status():
    owner = Owner(document="team/a", since=5.0)
    ours = NONE.with_changes(
        [IntentStarted(entity=ALICE, key=RATE, intent=Intent(value=3.0, owner=owner, at=9.0))]
    )
    obj = with_status(quota("team/a", ALICE), ours)
    assert obj["status"]["keys"][0]["intended"] == 3
    alone = owned_from(ID, [obj], NONE)
    assert alone.intents == {(ALICE, RATE): Intent(value=3.0, owner=owner)}
    assert not alone.intents[ALICE, RATE].may_still_land(1_700_000_000.0)
    assert owned_from(ID, [obj], ours).intents == ours.intents


def test_an_intended_removal_reads_back():
    owner = Owner(document="team/a", since=5.0)
    ours = NONE.with_changes(
        [
            recorded("team/a", ALICE, RATE, 4.0),
            IntentStarted(entity=ALICE, key=RATE, intent=Intent(value=None, owner=owner)),
        ]
    )
    obj = with_status(quota("team/a", ALICE), ours)
    assert obj["status"]["keys"][0]["intendedRemoval"] is True
    assert owned_from(ID, [obj], NONE).intents == ours.intents


def test_a_document_that_vanished_leaves_its_records_to_be_judged():
    owned = NONE.with_changes(
        [
            recorded("team/a", ALICE, RATE, 5.0, policy=DeletionPolicy.DELETE),
            DriftObserved(entity=ALICE, key=RATE, at=7.0),
        ]
    )
    document = with_status(quota("team/a", ALICE), owned)
    document["spec"]["deletionPolicy"] = "Delete"
    rest = release(NONE, [document])
    assert rest == replace(owned, is_known=True)
    assert rest.orphaned == frozenset()


def test_numbers_are_written_as_people_expect_them():
    owned = NONE.with_changes(
        [recorded("team/a", ALICE, RATE, 2.0**63), recorded("team/a", ALICE, CONSUME, 1048576.0)]
    )
    fields = [key_record_fields(owned, "team/a", ALICE, key)["applied"] for key in (RATE, CONSUME)]
    assert [repr(one) for one in fields] == ["9.223372036854776e+18", "1048576"]
    back = owned_from(ID, [with_status(quota("team/a", ALICE), owned)], NONE)
    assert back.records == owned.records


# ---- damage ------------------------------------------------------------------------------------

GOOD = {
    "key": "producer_byte_rate",
    "applied": 5,
    "appliedAt": "2024-01-01T00:00:00Z",
    "since": "2024-01-01T00:00:00Z",
    "deletionPolicy": "Delete",
}
DAMAGE = {
    "an unknown key": {**GOOD, "key": "no_such_key"},
    "no key": {name: value for name, value in GOOD.items() if name != "key"},
    "a text for a number": {**GOOD, "applied": "5"},
    "true for a number": {**GOOD, "applied": True},
    "null for a number": {**GOOD, "applied": None},
    "not a number": {**GOOD, "applied": float("nan")},
    "no time": {**GOOD, "since": "yesterday"},
    "a number for a time": {**GOOD, "appliedAt": 5},
    "an unknown policy": {**GOOD, "deletionPolicy": "Perhaps"},
    "two intents": {**GOOD, "intended": 5, "intendedRemoval": True},
    "no intent at all": {**GOOD, "intendedRemoval": "yes"},
    "no object": "producer_byte_rate",
}


def damaged(*items, **status):
    return quota("team/a", ALICE) | {"status": {"clusterId": ID, "keys": list(items), **status}}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_an_error_that_names_the_object(case):
    with pytest.raises(InventoryError, match=r"ClientQuota team/a is damaged"):
        owned_from(ID, [damaged(DAMAGE[case])], NONE)


@pytest.mark.parametrize(
    "status",
    [
        damaged(GOOD, GOOD),
        damaged(GOOD, clusterId=None),
        damaged(GOOD, keys={"producer_byte_rate": GOOD}),
        damaged(GOOD, drift=[{"key": "producer_byte_rate"}]),
        damaged(GOOD, drift=[{"key": "producer_byte_rate", "firstSeen": "soon"}]),
    ],
)
def test_damage_around_the_keys_is_one_too(status):
    with pytest.raises(InventoryError, match="team/a"):
        owned_from(ID, [status], NONE)


def test_good_entries_are_read_whole():
    (entry,) = entries_of(ID, damaged(GOOD))
    assert (entry.applied, entry.applied_at) == (5.0, 1_704_067_200.0)
    assert entry.owner == Owner(
        document="team/a", deletion_policy=DeletionPolicy.DELETE, since=1_704_067_200.0
    )
    found = drift_of(ID, damaged(drift=[{"key": "producer_byte_rate", "firstSeen": GOOD["since"]}]))
    assert found == {RATE: 1_704_067_200.0}


def test_a_status_without_records_needs_no_cluster_id():
    obj = quota("team/a", ALICE) | {"status": {"keys": [{"key": "producer_byte_rate", "desired": 5}]}}  # fmt: skip
    assert entries_of(ID, obj) == ()


# ---- entities ----------------------------------------------------------------------------------


@given(some.entities)
def test_an_entity_reads_back_from_spec_and_from_status(subject):
    spec = {"spec": {"entity": slots(subject)}}
    assert entity_of(spec) == subject
    assert entity_of({"status": {"entity": entity_text(subject)}}) == subject
    assert (
        entity_of({"spec": {"entity": {}}, "status": {"entity": entity_text(subject)}}) == subject
    )


@pytest.mark.parametrize(
    "parts", [None, {}, {"user": {}}, {"user": {"name": 5}}, {"group": {"name": "x"}}, {"user": None},
              {"ip": {"name": "::1"}, "user": {"name": "x"}}, {"user": {"default": False}}]
)  # fmt: skip
def test_what_is_no_entity_is_none(parts):
    assert entity_of({"spec": {"entity": parts}}) is None


def test_records_without_a_readable_entity_are_damage():
    obj = damaged(GOOD)
    obj["spec"] = {"entity": {"user": {}}}
    with pytest.raises(InventoryError, match="no entity"):
        owned_from(ID, [obj], NONE)


def test_an_invalid_document_still_says_whose_its_records_are():
    owned = NONE.with_changes([recorded("team/a", entity(user=DEFAULT), RATE, 5.0)])
    obj = with_status(quota("team/a", entity(user=DEFAULT)), owned)
    obj["spec"]["limits"] = {"producerByteRate": -1}
    assert owned_from(ID, [obj], NONE).records == owned.records
