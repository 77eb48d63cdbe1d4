"""Where a message goes, without ever showing more of the address than scheme and host; and what is sent there."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Never, final
from urllib.parse import urlsplit

from reconciler.base.redaction import remember
from reconciler.errors import ConfigError

_HIDDEN: Final = "<hidden>"


@final
class HiddenText:
    """A text that ``str``, ``repr``, ``format``, ``pickle`` and tracebacks of values never show."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text
        remember(text)

    def reveal(self) -> str:
        """The text itself, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return f"Hidden({_HIDDEN})"

    def __str__(self) -> str:
        return _HIDDEN

    def __format__(self, spec: str) -> str:
        return format(_HIDDEN, spec)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a Hidden is never pickled or copied")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address that takes messages.

    Attributes:
        name: What we call it in output and state; holds no secret.
        url: The address; its path is often the only password.
        key: What messages are signed with, if they are.
    """

    name: str
    url: HiddenText
    key: HiddenText | None = None

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        split = urlsplit(self.url.reveal())
        port = f":{split.port}" if split.port is not None else ""
        return f"{split.scheme}://{split.hostname}{port}"

    @property
    def is_open(self) -> bool:
        """Whether the message crosses a network that others may read."""
        split = urlsplit(self.url.reveal())
        return split.scheme == "http" and not _is_loopback(split.hostname or "")


def endpoint(name: str, url: str, *, key: str | None = None) -> Endpoint:
    """An endpoint whose parts were looked at; blanks around them, as files have them, are taken off.

    Raises:
        ConfigError: The address is none, or the key is empty. The message shows neither.
    """
    url = url.strip()
    try:
        split = urlsplit(url)
        usable = split.scheme in {"http", "https"} and split.hostname and split.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ConfigError(
            f"{name} does not hold the address of a receiver",
            key="notify",
            hint="it is one line, such as https://hooks.example.com/services/...",
        )
    if key is not None and not key.strip():
        raise ConfigError("the key that messages are signed with is empty", key="notify-key")
    return Endpoint(
        name=name, url=HiddenText(url), key=None if key is None else HiddenText(key.strip())
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """One POST, the same bytes at every try."""

    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
