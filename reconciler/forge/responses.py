"""Interprets HTTP responses of a code host: the error with its hint, or how long to wait. Pure functions."""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin, urlsplit

from reconciler.base import bounded_json
from reconciler.base.escaping import escaped
from reconciler.base.http.messages import HttpResponse
from reconciler.base.secret import Secret
from reconciler.errors import ForgeError

MAX_WORDS: Final = 300
"""Characters of a host's error text in a message."""

SECONDARY_SECONDS: Final = 60.0
"""GitHub: after a secondary limit without Retry-After, wait at least a minute."""

_HINTS: Final[Mapping[int, str]] = {
    401: "the token is invalid, expired or for another host",
    403: "the token lacks a permission; on GitHub a job needs `permissions: pull-requests: write` (issues: write for an"
    " issue), and a run of a fork's pull request never has it",
    404: "the repository, pull request or comment does not exist, or the token cannot read it",
    410: "issues or comments are disabled for this repository",
    413: "the text is too long for this host",
    422: "the host did not accept the content",
    429: "the host limits requests; try again later",
}


def is_rate_limit(response: HttpResponse) -> bool:
    """Whether this is a rate limit. GitHub uses 403 for both kinds of them, and for missing permissions."""
    if response.status == 429:
        return True
    if response.status != 403:
        return False
    return (
        "retry-after" in response.headers
        or response.headers.get("x-ratelimit-remaining") == "0"
        or "secondary rate limit" in error_text(response).lower()
    )


def error_text(response: HttpResponse) -> str:
    """Return the host's error text on one line, cut; "" if there is none."""
    try:
        document = bounded_json.parse(response.body, most_bytes=bounded_json.ANSWER)
    except bounded_json.InvalidJson:
        return ""
    if not isinstance(document, dict):
        return ""
    parts = [document.get("message"), document.get("error"), document.get("error_description")]
    texts = [
        json.dumps(part) if isinstance(part, dict | list) else str(part) for part in parts if part
    ]
    # GitHub reports invalid fields only in this list.
    texts += [
        str(error.get("message") or error) if isinstance(error, dict) else str(error)
        for error in document.get("errors") or ()
    ]
    line = escaped("; ".join(texts))
    return line if len(line) <= MAX_WORDS else f"{line[:MAX_WORDS]}..."


def limit_wait(response: HttpResponse, now: float) -> float:
    """Return the seconds that the host requires to wait; only for rate limits.

    Retry-After takes precedence over the reset time: it is sent for secondary limits, which reset at another time.
    """
    after = response.retry_after(now)
    if after is not None:
        return after
    headers = response.headers
    reset = headers.get("x-ratelimit-reset") or headers.get("ratelimit-reset") or ""
    is_primary = headers.get("x-ratelimit-remaining") == "0" or "ratelimit-reset" in headers
    if reset.isascii() and reset.isdigit() and is_primary:
        return max(float(reset) - now, 1.0)
    return SECONDARY_SECONDS


def failure(answer: HttpResponse, request: str, token: Secret | None) -> ForgeError:
    """Return the error for an unexpected response."""
    words = error_text(answer) if token is None else token.hidden_in(error_text(answer))
    redirect = answer.headers.get("location", "") if 300 <= answer.status < 400 else ""
    hint = _HINTS.get(answer.status, "")
    if redirect:
        hint = "the repository was renamed or moved; use its new name"
    elif answer.status >= 500:
        hint = "the host has an internal error; try again later"
    return ForgeError(
        f"{request} answered {answer.status}" + (f": {words}" if words else ""),
        status=answer.status,
        may_work_later=answer.status >= 500 or is_rate_limit(answer),
        hint=hint,
    )


def next_page(answer: HttpResponse, current_url: str) -> str | None:
    """Return the address of the next page, from the Link header; ``None`` after the last.

    Raises:
        ForgeError: It leads to another host, which would receive the token.
    """
    for part in answer.headers.get("link", "").split(","):
        address, _, parameters = part.strip().partition(">")
        names = {parameter.strip().replace('"', "") for parameter in parameters.split(";")}
        if address.startswith("<") and "rel=next" in names:
            target = urljoin(current_url, address[1:])
            if urlsplit(target)[:2] != urlsplit(current_url)[:2]:
                raise ForgeError(
                    f"the next page of {urlsplit(current_url).path} is on another host and is not requested"
                )
            return target
    return None
