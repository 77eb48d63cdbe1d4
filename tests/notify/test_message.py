"""Messages as values: equality, lists, and the fields for receivers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import QuotaValueError
from reconciler.notify.message import MOST_PAIRS, DriftEvent, Message, document, drift_of
from reconciler.notify.message_text import headline, lines
from reconciler.quota.drift_tracker import DriftObservation
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.results.report import ExpiredOverride
from reconciler.render.json_values import dump
from tests.notify.receivers import ALICE, BOB, NOW, drift, message, named


def sighting(user: str, *, confirmed: bool = True, live: float | None = 1.0) -> DriftObservation:
    return DriftObservation(
        entity=entity(user=user),
        key=Key.PRODUCER_BYTE_RATE,
        expected=2.0,
        live=live,
        since=NOW,
        confirmed=confirmed,
    )


def test_only_confirmed_drift_is_reported_in_a_fixed_order():
    cluster_drift = drift_of(
        "prod", "id", (sighting("b"), sighting("a"), sighting("c", confirmed=False))
    )
    assert [pair.entity for pair in cluster_drift.pairs] == [entity(user="a"), entity(user="b")]


def test_an_expired_override_is_reported_with_its_end():
    override = Override(
        entity=entity(user="a"),
        key=Key.PRODUCER_BYTE_RATE,
        value=4.0,
        until=NOW,
        author="eve",
        reason="x",
    )
    expired = ExpiredOverride(override=override, expected=2.0, live=4.0, document="")
    cluster_drift = drift_of("prod", "id", (sighting("b"),), (expired,))
    assert [pair.is_expired_override for pair in cluster_drift.pairs] == [True, False]
    began = Message(
        event=DriftEvent.BEGAN, drift=cluster_drift, at=NOW, since=NOW, digest=cluster_drift.digest
    )
    assert "1 quota with the value of an override that has ended" in headline(began)
    assert "override ended 2" in lines(began)[0]
    assert [pair["expiredOverride"] for pair in document(began)["pairs"]] == [True, False]


def test_the_digest_depends_on_the_drift_and_not_on_its_time():
    same = drift(replace(ALICE, since=1.0), BOB)
    assert drift(ALICE, BOB).digest == same.digest
    variants = [
        drift(BOB),
        drift(ALICE, BOB, cluster="test"),
        drift(replace(ALICE, live=8.0), BOB),
        drift(replace(ALICE, live=None), BOB),
        drift(replace(ALICE, corrections_stopped=True), BOB),
        drift(named("eve"), BOB),
    ]
    assert len({variant.digest for variant in variants} | {same.digest}) == len(variants) + 1


@given(st.lists(st.text(max_size=20), unique=True, min_size=1, max_size=5))
def test_different_names_never_have_the_same_digest(names):
    digests = {drift(named(name)).digest for name in names}
    assert len(digests) == len(names)


def test_a_message_contains_everything_that_a_receiver_needs_to_act():
    assert json.loads(dump(document(message(ALICE, BOB)))) == {
        "kind": "kquota-drift-message",
        "format": 1,
        "event": "began",
        "id": message(ALICE, BOB).identity,
        "cluster": "prod",
        "clusterId": "id-1",
        "at": "2023-11-14T22:13:20Z",
        "since": "2023-11-14T22:03:20Z",
        "digest": drift(ALICE, BOB).digest,
        "driftedPairs": 2,
        "resolvedPairs": 0,
        "omittedPairs": 0,
        "pairs": [
            {
                "entity": [["user", "alice"]],
                "entityText": "user=alice",
                "key": "producer_byte_rate",
                "expected": 1048576,
                "live": 7,
                "since": "2023-11-14T22:12:20Z",
                "fought": False,
                "expiredOverride": False,
                "corrections": [],
            },
            {
                "entity": [["user", "bob"]],
                "entityText": "user=bob",
                "key": "request_percentage",
                "expected": 50,
                "live": None,
                "since": "2023-11-14T22:03:20Z",
                "fought": False,
                "expiredOverride": False,
                "corrections": [],
            },
        ],
    }


def test_another_writer_that_reverts_corrections_is_reported_with_times_and_values():
    fought = replace(
        sighting("a"),
        corrections_stopped=True,
        corrected_at=(NOW, NOW + 60),
        overwritten=(7.0, None),
    )
    cluster_drift = drift_of("prod", "id", (fought,))
    new_message = Message(
        event=DriftEvent.BEGAN, drift=cluster_drift, at=NOW, since=NOW, digest=cluster_drift.digest
    )
    assert document(new_message)["pairs"][0]["corrections"] == [
        {"at": "2023-11-14T22:13:20Z", "overwrote": 7},
        {"at": "2023-11-14T22:14:20Z", "overwrote": None},
    ]
    assert lines(new_message)[0].endswith(
        "; corrections were reverted repeatedly (7 B/s at 2023-11-14T22:13:20Z, - at 2023-11-14T22:14:20Z) and are stopped"
    )
    assert (
        cluster_drift.digest
        == replace(cluster_drift, pairs=(replace(cluster_drift.pairs[0], corrections=()),)).digest
    )


def test_a_long_list_is_shortened_with_a_count():
    many = message(*(named(f"u{number:03}") for number in range(MOST_PAIRS + 7)))
    displayed_document = document(many)
    assert displayed_document["driftedPairs"] == MOST_PAIRS + 7
    assert displayed_document["omittedPairs"] == 7
    assert len(displayed_document["pairs"]) == MOST_PAIRS


def test_a_message_of_an_end_lists_no_drift_and_one_of_a_beginning_lists_some():
    with pytest.raises(QuotaValueError):
        message(event=DriftEvent.BEGAN)
    with pytest.raises(QuotaValueError):
        Message(event=DriftEvent.ENDED, drift=drift(ALICE), at=NOW, since=NOW, digest="x")


def test_the_identity_is_equal_for_every_try_of_a_message_and_unique():
    new_message = message(ALICE)
    assert new_message.identity == message(ALICE).identity
    assert new_message.identity != replace(new_message, at=NOW + 1).identity
    assert new_message.identity != replace(new_message, event=DriftEvent.REMINDED).identity
