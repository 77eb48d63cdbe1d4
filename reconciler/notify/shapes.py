"""The shapes of a message: kquota's own JSON, and Slack's."""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from reconciler.notify.endpoint import WebhookRequest
from reconciler.notify.message import DriftEvent, Message, document
from reconciler.notify.message_text import headline, lines
from reconciler.render.json_values import dump

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


class MessageShape(StrEnum):
    """Shape of a receiver's messages, as in ``--notify``; ``NOTIFICATION_SHAPES`` of ``app/requests.py`` has the same."""

    WEBHOOK = "webhook"
    SLACK = "slack"


SHAPES: Final[Mapping[MessageShape, Callable[[Message], WebhookRequest]]] = {
    MessageShape.WEBHOOK: _webhook,
    MessageShape.SLACK: _slack,
}
"""How a message is written."""
