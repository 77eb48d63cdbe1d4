"""The document of a record: live, being deleted, or gone, observed or unobserved."""

from typing import Any

import pytest

from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.records.document_presence import DEPARTED, DocumentPresence, Presence
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Intent, Owner, OwnershipRecords, Recorded
from reconciler.quota.policy import DeletionPolicy
from tests.kube.worlds import resource, seen

ALICE = entity(user="alice")
RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
NAME = "team/alice"
DELETE = Owner(document=NAME, deletion_policy=DeletionPolicy.DELETE)


def quota(uid: str = "u1", *, terminating: bool = False, **spec: Any) -> Resource:
    obj = resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete")
    obj["spec"] |= spec
    obj["metadata"]["uid"] = uid
    if terminating:
        obj["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    return seen(obj)


def presence(
    live: Resource | None = None,
    *,
    deleted: Resource | None = None,
    uid: str | None = "u1",
    complete: bool = True,
    removes: bool = True,
) -> DocumentPresence:
    return DocumentPresence(
        documents={} if live is None else {NAME: live},
        deleted_documents={} if deleted is None else {NAME: deleted},
        uids={} if uid is None else {NAME: uid},
        is_complete=complete,
        may_remove=lambda document, subject: removes,
    )


PRESENCES = [
    (presence(quota()), Presence.LIVE),
    (presence(quota(terminating=True)), Presence.TERMINATING),
    (presence(deleted=quota()), Presence.DELETED),
    (presence(uid=None), Presence.DELETED),
    (presence(quota("u2"), uid=None), Presence.DELETED),
    (presence(quota("u2"), deleted=quota()), Presence.DELETED),
    (presence(), Presence.MISSING),
    (presence(quota("u2")), Presence.MISSING),
    (presence(quota("u3"), deleted=quota("u2")), Presence.MISSING),
]


@pytest.mark.parametrize(("documents", "expected"), PRESENCES)
def test_a_record_names_its_document_by_uid(documents, expected) -> None:
    assert documents.of(NAME) is expected


def owner(documents: DocumentPresence, key: Key = RATE) -> tuple[str, DeletionPolicy | None]:
    judged = documents.owner(DELETE, ALICE, key)
    return judged.document, judged.deletion_policy


def test_the_limits_of_a_document_whose_deletion_was_not_observed_are_kept() -> None:
    assert owner(presence()) == (NAME, DeletionPolicy.RETAIN)
    assert owner(presence(complete=False)) == (NAME, DeletionPolicy.DELETE), "possibly not listed"


def test_a_document_whose_deletion_was_observed_is_handled_by_its_record() -> None:
    assert owner(presence(deleted=quota())) == (NAME, DeletionPolicy.DELETE)
    assert owner(presence(uid=None)) == (NAME, DeletionPolicy.DELETE)
    assert owner(presence(quota("u2"), deleted=quota())) == (NAME + DEPARTED, DeletionPolicy.DELETE)


@pytest.mark.parametrize(
    "documents",
    [presence(quota(terminating=True), removes=False), presence(uid=None, removes=False)],
)
def test_a_revoked_right_to_delete_removes_nothing(documents) -> None:
    assert owner(documents) == (NAME, DeletionPolicy.RETAIN)


def test_the_last_spec_applies_if_it_keeps_more() -> None:
    assert owner(presence(quota(terminating=True, deletionPolicy="Retain")))[1] is (
        DeletionPolicy.RETAIN
    )
    retained = Owner(document=NAME, deletion_policy=DeletionPolicy.RETAIN)
    going = presence(quota(terminating=True))
    assert going.owner(retained, ALICE, RATE) == retained


def test_a_restored_document_owns_only_the_pairs_that_it_declares() -> None:
    restored = presence(quota("u2"))
    assert owner(restored, RATE) == (NAME, DeletionPolicy.DELETE)
    assert owner(restored, SHARE) == (NAME + DEPARTED, DeletionPolicy.RETAIN)


def test_records_intents_and_orphans_follow_their_documents() -> None:
    owned = OwnershipRecords(
        cluster_id="c", intents={(ALICE, SHARE): Intent(value=1.0, owner=DELETE)}
    ).with_changes([Recorded(entity=ALICE, key=RATE, value=2048.0, owner=DELETE)])
    owned = type(owned)(
        cluster_id="c",
        records=owned.records,
        intents={(ALICE, SHARE): Intent(value=1.0, owner=DELETE)},
        orphaned=frozenset({(ALICE, RATE)}),
    )
    live = presence(quota()).judged(owned)
    assert (live.records, live.intents, live.orphaned) == (
        owned.records,
        owned.intents,
        frozenset(),
    )
    going = presence(quota(terminating=True)).judged(owned)
    assert going.orphaned == owned.orphaned, "a release marked it"
    gone = presence(quota("u2", limits={}), deleted=quota()).judged(owned)
    assert gone.intents[ALICE, SHARE].owner.document == NAME + DEPARTED
    assert gone.records[ALICE].owners[0].document == NAME + DEPARTED
