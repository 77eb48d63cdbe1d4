"""The address of a receiver, of which messages show only scheme and host; and the request to it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct, field

from reconciler.base.http.addresses import is_plain
from reconciler.base.redaction import QuietRepr, remember
from reconciler.base.secret import Secret
from reconciler.errors import ConfigError


class Endpoint(Struct, frozen=True, kw_only=True):
    """The address of a receiver."""

    name: str  # its name in output and state; contains no secret
    url: Secret  # the address; its path is often the only password

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        split = urlsplit(self.url.reveal())
        port = f":{split.port}" if split.port is not None else ""
        return f"{split.scheme}://{split.hostname}{port}"

    @property
    def is_open(self) -> bool:
        """Whether the message crosses a network without TLS."""
        return is_plain(self.url.reveal())


def endpoint(name: str, url: str) -> Endpoint:
    """Return a validated endpoint; surrounding blanks, as in files, are removed.

    Raises:
        ConfigError: The address is invalid. The message does not show it.
    """
    url = url.strip()
    try:
        split = urlsplit(url)
        usable = split.scheme in {"http", "https"} and split.hostname and split.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ConfigError(
            f"{name} does not contain the URL of a receiver",
            key="notify",
            hint="it is one line, such as https://hooks.example.com/services/...",
        )
    remember(url)
    return Endpoint(name=name, url=Secret(url))


class WebhookRequest(QuietRepr, Struct, frozen=True, kw_only=True):
    """One POST, the same bytes at every attempt."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
