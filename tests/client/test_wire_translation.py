"""Quota values to messages, and responses to results: matched by entity, never by position."""

import pytest

from reconciler.client.wire_translation import (
    alteration_request,
    filter_request,
    rejection,
    results_of,
)
from reconciler.errors import ProtocolError
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.state import ANY, Alteration, Component, Filter, Rejected
from reconciler.wire.error_codes import INVALID_REQUEST, NONE
from reconciler.wire.messages import describe_client_quotas
from reconciler.wire.messages.alter_client_quotas import AlterClientQuotasResponse

SHOP, ANYONE = entity(user="alice", client_id="shop"), entity(user=DEFAULT)
BY_PARTS = {alteration_request(Alteration(subject, ()))[0]: subject for subject in (SHOP, ANYONE)}


def answer(*results: tuple[tuple[tuple[str, str | None], ...], int, str | None]):
    return AlterClientQuotasResponse(throttle_time_ms=0, results=results)


def test_the_three_ways_to_match_a_part_have_three_encodings() -> None:
    components = (
        Component(entity_type="user", match="alice"),
        Component(entity_type="client-id", match=None),
        Component(entity_type="ip", match=ANY),
    )
    request = filter_request(Filter(components=components, strict=True))
    assert request.strict
    assert request.components == (
        ("user", describe_client_quotas.EXACT, "alice"),
        ("client-id", describe_client_quotas.DEFAULT, None),
        ("ip", describe_client_quotas.ANY, None),
    )


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([((("user", "mallory"),), NONE, None)], "was not asked for"),
        ([(next(iter(BY_PARTS)), NONE, None)] * 2, "answered twice"),
    ],
)
def test_a_response_that_does_not_match_the_request_is_refused(rows, words) -> None:
    with pytest.raises(ProtocolError, match=words):
        results_of(answer(*rows), BY_PARTS)


def test_messages_of_a_broker_are_scrubbed_and_missing_ones_are_replaced() -> None:
    parts = next(iter(BY_PARTS))
    refused = answer((parts, INVALID_REQUEST, "password secret is bad"))
    results = results_of(refused, BY_PARTS, lambda words: words.replace("secret", "***"))
    assert results[SHOP] == Rejected(
        code=INVALID_REQUEST, name="INVALID_REQUEST", message="password *** is bad"
    )
    assert rejection(INVALID_REQUEST, None).message == (
        "the broker finds the request wrong; its message says where"
    )
    assert rejection(9_999, "").name == "UNKNOWN(9999)"
