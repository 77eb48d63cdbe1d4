"""The frame of every HTML page: its head with a content security policy, and its body.

The policy allows the hashes of style and script and nothing else, no connection at all: a page may be opened from a
mail or a build's artifacts without trusting its content.
"""

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from typing import Final

from reconciler.base.escaping import escaped

FRAME: Final = "frame.html"
"""The file of ``page/`` with ``{{policy}}``, ``{{title}}``, ``{{style}}`` and ``{{body}}``."""


def page_frame(frame: str, *, title: str, style: str, body: str, script: str = "") -> str:
    """Return a page.

    Args:
        title: Plain text.
        script: The JavaScript in the body, which the policy allows; "" = none.
    """
    allowed = f"script-src '{_hash(script)}'; " if script else ""
    policy = (
        f"default-src 'none'; {allowed}style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "title": escape(escaped(title)), "style": style, "body": body}
    return fill_template(frame, parts)


def fill_template(template: str, parts: Mapping[str, str]) -> str:
    """Return a template with its parts, each once and in the order of the template; parts may contain ``{{``."""
    pieces: list[str] = []
    for name, part in parts.items():
        before, _, template = template.partition("{{" + name + "}}")
        pieces += [before, part]
    return "".join([*pieces, template])


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
