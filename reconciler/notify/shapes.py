"""The shapes of a message: kquota's own JSON, Slack's, and CloudEvents; and the signature over time and body."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import quote

from reconciler.base.secret import Secret
from reconciler.notify.endpoint import Endpoint, WebhookRequest
from reconciler.notify.message import DriftEvent, Message, document
from reconciler.notify.message_text import headline, lines
from reconciler.render.json_values import Json, dump
from reconciler.render.units import instant

HEADER: Final = "X-Kquota-Signature"
"""``t=<seconds since the epoch>,v1=<hex of HMAC-SHA256 over "<t>." and the body>``."""

_SIGNS: Final = {
    DriftEvent.BEGAN: ":warning:",
    DriftEvent.CHANGED: ":warning:",
    DriftEvent.REMINDED: ":alarm_clock:",
    DriftEvent.ENDED: ":white_check_mark:",
}


def _webhook(message: Message) -> WebhookRequest:
    return WebhookRequest(
        body=dump(document(message)).encode(),
        headers={
            "Content-Type": "application/json",
            "X-Kquota-Event": f"drift.{message.event.value}",
            "X-Kquota-Delivery": message.identity,
        },
    )


def _slack(message: Message) -> WebhookRequest:
    """Return a line of text and a block of pairs, as Slack, Mattermost and Rocket.Chat read them."""
    text = f"{_SIGNS[message.event]} {_plain(headline(message))}"
    message_lines = lines(message)
    if message_lines:
        block = "\n".join(_plain(line) for line in message_lines)
        text += f"\n```\n{block}\n```"
    body = json.dumps({"text": text}, ensure_ascii=True).encode()
    return WebhookRequest(body=body, headers={"Content-Type": "application/json"})


def _plain(text: str) -> str:
    """Escape text so that it contains no link, no mention and no end of the block.

    Slack reads only ``& < >`` as markup in posted messages; compatible servers also notify people at ``@all``.
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("`", "\\u0060").replace("@", "@\u200b")


def _cloudevents(message: Message) -> WebhookRequest:
    """Return CloudEvents 1.0 in structured mode; ``id`` is the same at every attempt, to detect duplicates."""
    envelope: dict[str, Json] = {
        "specversion": "1.0",
        "id": message.identity,
        "source": f"/kafka-quotas/clusters/{quote(message.drift.cluster, safe='')}",
        "type": f"io.kafka-quotas.drift.{message.event.value}.v1",
        "time": instant(message.at),
        "datacontenttype": "application/json",
        "data": document(message),
    }
    if message.drift.cluster_id:  # a subject may be absent, but never empty
        envelope["subject"] = message.drift.cluster_id
    headers = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
    return WebhookRequest(body=dump(envelope).encode(), headers=headers)


class MessageShape(StrEnum):
    """Shape of a receiver's messages, as in ``--notify``; ``NOTIFICATION_SHAPES`` of ``app/requests.py`` has the same."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    CLOUDEVENTS = "cloudevents"


class ShapeDefinition(NamedTuple):
    """How a message is written, and whether a key signs it. Otherwise the address itself is the password."""

    write: Callable[[Message], WebhookRequest]
    is_signed: bool


SHAPES: Final[Mapping[MessageShape, ShapeDefinition]] = {
    MessageShape.WEBHOOK: ShapeDefinition(_webhook, is_signed=True),
    MessageShape.SLACK: ShapeDefinition(_slack, is_signed=False),
    MessageShape.CLOUDEVENTS: ShapeDefinition(_cloudevents, is_signed=True),
}


def request_of(shape: MessageShape, message: Message, to: Endpoint, *, at: float) -> WebhookRequest:
    """Return the POST; the key of the address signs it at this time, in seconds since the epoch."""
    definition = SHAPES[shape]
    request = definition.write(message)
    if to.key is None or not definition.is_signed:
        return request
    return replace(
        request, headers={**request.headers, HEADER: _signature(request.body, to.key, at=at)}
    )


def _signature(body: bytes, key: Secret, *, at: float) -> str:
    """Return the value of ``HEADER``. It covers the time, so that a recorded message cannot be replayed later."""
    time = str(int(at))
    mac = hmac.new(key.reveal().encode(), time.encode() + b"." + body, hashlib.sha256)
    return f"t={time},v1={mac.hexdigest()}"
