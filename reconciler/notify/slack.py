"""Slack-compatible incoming webhooks (Slack, Mattermost, Rocket.Chat): a line of text and a block of pairs."""

import json
from typing import Final

from reconciler.notify.endpoint import Endpoint, WebhookRequest
from reconciler.notify.message import DriftEvent, Message
from reconciler.notify.message_text import headline, lines

_SIGNS: Final = {
    DriftEvent.BEGAN: ":warning:",
    DriftEvent.CHANGED: ":warning:",
    DriftEvent.REMINDED: ":alarm_clock:",
    DriftEvent.ENDED: ":white_check_mark:",
}


def request(message: Message, to: Endpoint, *, at: float) -> WebhookRequest:  # noqa: ARG001 - one shape for all
    """Return the POST; it is not signed, because the address itself is the password."""
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
