"""Quota values to messages, and responses to results: matched by entity, never by position."""

import pytest

from reconciler.client.wire_translation import (
    alteration_request,
    results_of,
)
from reconciler.errors import ProtocolError
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.outcome import Alteration
from reconciler.wire.error_codes import NONE
from reconciler.wire.messages.alter_client_quotas import AlterClientQuotasResponse

SHOP, ANYONE = entity(user="alice", client_id="shop"), entity(user=DEFAULT)
BY_PARTS = {alteration_request(Alteration(subject, ()))[0]: subject for subject in (SHOP, ANYONE)}


def answer(*results: tuple[tuple[tuple[str, str | None], ...], int, str | None]):
    return AlterClientQuotasResponse(throttle_time_ms=0, results=results)


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
