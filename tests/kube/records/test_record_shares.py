"""The share of a namespace in a part: an upper bound of what its pairs take up, and who is refused when it is full."""

import base64
import random
import uuid

import pytest

from reconciler.kube.records import record_index
from reconciler.kube.records.config_maps import MOST_BYTES, config_maps
from reconciler.kube.records.record_index import ROOM, SHARE, RecordIndex, size_of, sizes_of
from reconciler.kube.records.stored_records import StoredRecords, part_of
from reconciler.quota.entity import entity
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.ownership import (
    DriftObserved,
    Intent,
    IntentStarted,
    Orphaned,
    Owner,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.planner.desired_state import Claim, Declaration
from reconciler.quota.state import limits_of
from tests.reconcile.scenarios import ALICE, RATE

SALT = "5a17"
ALPHABETS = {
    "control characters": [chr(code) for code in range(1, 32)],
    "printable": [chr(code) for code in range(32, 127)],
    "hexadecimal": list("0123456789abcdef"),
    "latin": [chr(code) for code in range(0xA0, 0x17F)],
    "chinese": [chr(code) for code in range(0x4E00, 0x9FFF)],
    "pictures": [chr(code) for code in range(0x1F300, 0x1F6FF)],
}
OF_DOCUMENTS = "abcdefghijklmnopqrstuvwxyz0123456789-."


@pytest.mark.parametrize("length", [4, 40, 120])
@pytest.mark.parametrize("keys", [1, 2, 5])
@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("mark", ["drift", "orphans"])
def test_pairs_take_up_no_more_than_they_count_for_whatever_their_names_are(
    mark: str, alphabet: str, keys: int, length: int
) -> None:
    """Nothing in them compresses: names, values, uids and times are random, and every pair has a write in progress."""
    dice, changes, uids, counted = random.Random(length), [], {}, 0
    for _ in range(60):
        names = ["".join(dice.choices(ALPHABETS[alphabet], k=length)) for _ in range(2)]
        subject = entity(user=names[0], client_id=names[1])
        document = "t/" + "".join(dice.choices(OF_DOCUMENTS, k=length))
        uids[document] = str(uuid.UUID(int=dice.getrandbits(128)))
        owner = Owner(document=document, since=dice.random() * 4e9)
        for key in COLUMNS[:keys]:
            value, at = dice.random() * 1e12, dice.random() * 4e9
            intent = Intent(value=dice.random() * 1e12, owner=owner, at=at)
            changes += [
                Recorded(entity=subject, key=key, value=value, owner=owner),
                IntentStarted(entity=subject, key=key, intent=intent),
                DriftObserved(entity=subject, key=key, at=at)
                if mark == "drift"
                else Orphaned(entity=subject, key=key),
            ]
        counted += size_of(subject, document, keys)
    owned = OwnershipRecords(cluster_id="c").with_changes(changes)
    empty = StoredRecords(owned=OwnershipRecords(cluster_id="c"), salt=SALT)
    stored = StoredRecords(owned=owned, uids=uids, salt=SALT)
    assert packed_bytes(stored) - packed_bytes(empty) <= counted


def packed_bytes(stored: StoredRecords) -> int:
    """The bytes of all parts as stored."""
    return sum(
        len(base64.b64decode(text))
        for config_map in config_maps(stored, namespace="x").values()
        for text in config_map["binaryData"].values()
    )


def test_four_full_shares_leave_room_for_the_counts_of_the_loop() -> None:
    assert 4 * SHARE == ROOM
    assert ROOM + 64 * 1024 == MOST_BYTES


def test_the_pairs_of_an_entity_count_for_the_namespaces_of_their_owners() -> None:
    owned = OwnershipRecords(cluster_id="c").with_changes(
        Recorded(entity=ALICE, key=key, value=1.0, owner=Owner(document=document))
        for key, document in zip(COLUMNS, ("a/x", "a/x", "a/y", "b/x"), strict=False)
    )
    assert sizes_of(ALICE, owned.records[ALICE]) == {
        "a": size_of(ALICE, "a/x", 2) + size_of(ALICE, "a/y", 1),
        "b": size_of(ALICE, "b/x", 1),
    }


# ---- who is refused ----------------------------------------------------------------------------


def claim(document: str, user: str, *keys: Key, created: float = 0.0) -> Claim:
    limits = limits_of(dict.fromkeys(keys or (RATE,), 1024.0))
    declaration = Declaration(document=document, entity=entity(user=user), limits=limits)
    return Claim(declaration=declaration, created=created)


def users_of_one_part() -> list[str]:
    """Names of one length."""
    names = (f"user{number:04}" for number in range(400))
    return [name for name in names if part_of(entity(user=name), SALT) == 5][:9]


USERS = users_of_one_part()


def index(*owned_by: str, keys: tuple[Key, ...] = (RATE,)) -> RecordIndex:
    """Records of the first users, each owned by one of these documents."""
    owned = OwnershipRecords(cluster_id="c").with_changes(
        Recorded(entity=entity(user=user), key=key, value=1.0, owner=Owner(document=document))
        for user, document in zip(USERS, owned_by, strict=False)
        for key in keys
    )
    result = RecordIndex()
    result.update(owned, SALT)
    return result


@pytest.fixture
def two_per_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two documents with one limit fill a share, and five a part."""
    size = size_of(entity(user=USERS[0]), "a/1", 1)
    monkeypatch.setattr(record_index, "SHARE", 2 * size)
    monkeypatch.setattr(record_index, "ROOM", 5 * size)


@pytest.mark.usefixtures("two_per_namespace")
def test_a_full_share_refuses_the_newest_documents_of_its_namespace_only() -> None:
    records = index("a/1")
    claims = [
        claim("a/1", USERS[0]),
        claim("a/2", USERS[1], created=9.0),
        claim("a/3", USERS[2], created=5.0),
        claim("b/1", USERS[3], created=9.0),
    ]
    assert records.without_room(claims) == {"a/2"}
    assert records.without_room(reversed(claims)) == {"a/2"}


@pytest.mark.usefixtures("two_per_namespace")
def test_what_a_document_owns_already_needs_no_room() -> None:
    assert index("a/1", "a/2", "a/3").without_room([claim("a/3", USERS[2])]) == set()


@pytest.mark.usefixtures("two_per_namespace")
def test_one_more_key_of_a_document_needs_room() -> None:
    records = index("a/1", "a/2")
    assert records.without_room([claim("a/2", USERS[1], *COLUMNS[:2])]) == {"a/2"}
    assert index("a/1").without_room([claim("a/1", USERS[0], *COLUMNS[:2])]) == set()


@pytest.mark.usefixtures("two_per_namespace")
def test_a_full_part_refuses_what_is_new_in_it_and_not_elsewhere() -> None:
    records = index("a/1", "a/2", "b/1", "b/2", "c/1")
    elsewhere = next(
        name for name in map("name{}".format, range(99)) if part_of(entity(user=name), SALT) != 5
    )
    assert records.without_room([claim("d/1", USERS[5]), claim("d/2", elsewhere)]) == {"d/1"}


@pytest.mark.usefixtures("two_per_namespace")
def test_room_is_free_again_when_records_are_dropped() -> None:
    records = index("a/1", "a/2")
    new = [claim("a/3", USERS[2])]
    assert records.without_room(new) == {"a/3"}
    records.update(OwnershipRecords(cluster_id="c"), SALT)
    assert records.without_room(new) == set()


def test_ten_thousand_documents_of_a_namespace_with_two_limits_each_are_within_its_share() -> None:
    claims = [
        claim(f"team/user-{number:05}", f"user-{number:05}", *COLUMNS[:2])
        for number in range(10_000)
    ]
    assert RecordIndex().without_room(claims) == set()


def test_a_hundred_thousand_pairs_of_forty_namespaces_are_within_the_room() -> None:
    claims = [
        claim(f"team-{number % 40}/user-{number:05}", f"user-{number:05}", *COLUMNS[:2])
        for number in range(50_000)
    ]
    assert RecordIndex().without_room(claims) == set()
