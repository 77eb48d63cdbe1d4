"""Slack-compatible incoming webhooks (Slack, Mattermost, Rocket.Chat): a line of text and a block of pairs."""

import json
from typing import Final

from reconciler.notify.endpoint import Endpoint, Request
from reconciler.notify.message import Event, Message
from reconciler.notify.words import headline, lines

_SIGNS: Final = {Event.BEGAN: ":warning:", Event.CHANGED: ":warning:", Event.REMINDED: ":alarm_clock:",
          Event.ENDED: ":white_check_mark:"}  # fmt: skip


def request(message: Message, to: Endpoint, *, at: float) -> Request:  # noqa: ARG001 - one shape for all
    """What is posted; nothing is signed, the address itself is the password."""
    text = f"{_SIGNS[message.event]} {_plain(headline(message))}"
    shown = lines(message)
    if shown:
        block = "\n".join(_plain(line) for line in shown)
        text += f"\n```\n{block}\n```"
    body = json.dumps({"text": text}, ensure_ascii=True).encode()
    return Request(body=body, headers={"Content-Type": "application/json"})


def _plain(text: str) -> str:
    """Text in which nothing is markup: no link, no mention, no end of the block.

    Slack reads only ``& < >`` as markup in what programs post; its look-alikes also notify people at ``@all``.
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("`", "\\u0060").replace("@", "@\u200b")
