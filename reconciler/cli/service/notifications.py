"""``--notify`` and what belongs to it: receivers from environment and files, and the record of what was sent."""

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.app.state_files import own_path
from reconciler.base.regular_files import read_regular
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import FILE, packed
from reconciler.cli.options.value_types import DurationParameter
from reconciler.errors import ConfigError, KquotaError, UsageError

if TYPE_CHECKING:
    from reconciler.base.protocols import Clock
    from reconciler.notify import ClusterDrift, Notifier
    from reconciler.notify.http_receiver import HttpReceiver

F = TypeVar("F", bound=Callable[..., Any])

SHAPES: Final = ("webhook", "slack", "cloudevents")
MOST_BYTES: Final = 16 * 1024
"""Largest file with an address or a key."""

_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationOptions:
    """Who is notified of drift, as it was typed.

    Attributes:
        receivers: ``SHAPE=env:NAME`` or ``SHAPE=file:PATH``.
        key: Where the key is that messages are signed with.
        remind_after: Seconds after which the same drift is sent again.
        state: Where it is written down what was sent; ``None`` = beside the project's records.
    """

    receivers: tuple[str, ...]
    key: str | None
    remind_after: float
    state: Path | None

    def __post_init__(self) -> None:
        if not self.receivers and (self.key is not None or self.state is not None):
            raise UsageError("--notify-key and --notify-state are about --notify")


def notify_options(function: F) -> F:
    """The options of :class:`NotificationOptions`, handed over as ``telling``."""
    fields = ("receivers", "key", "remind_after", "state")
    decorate: Callable[[F], F] = packed("telling", NotificationOptions, fields, (
        click.option("--notify", "receivers", multiple=True, metavar="SHAPE=env:NAME|file:PATH",
                     help=f"Send notifications to the URL in this variable or file; shapes: {', '.join(SHAPES)}."),
        click.option("--notify-key", "key", metavar="env:NAME|file:PATH",
                     help="Variable or file with the key that signs messages (HMAC-SHA256)."),
        click.option("--remind-after", type=DurationParameter(), default=_DAY, show_default="1d", metavar="DURATION",
                     help="Time after which unchanged drift is notified again."),
        click.option("--notify-state", "state", type=FILE, metavar="FILE",
                     help="File with the notifications that were sent  [default: .kquota/notified.json beside the project file]."),
    ))  # fmt: skip
    return decorate(function)


class DriftNotifications:
    """The receivers of one process and their memory, which outlives it.

    Args:
        console: Where it is said that a message was not taken.
        telling: What was typed.
        root: Folder of the project.
        clock: Time.

    Raises:
        ConfigError: An address, a key or the memory cannot be read. No secret is shown.
    """

    def __init__(
        self, console: Console, telling: NotificationOptions, root: Path, clock: "Clock"
    ) -> None:
        from reconciler.base.extras import needs

        self._console = console
        self._file = telling.state or own_path(
            root, ".kquota/notified.json", content_name="reported drift"
        )
        self._notifier: Notifier | None = None
        if telling.receivers:
            needs("http", "--notify")
            self._notifier = self._make_notifier(telling, clock)

    async def notify(self, drift: "ClusterDrift", now: float) -> bool:
        """Notify each receiver that is due; whether all took it. What was taken is written down at once."""
        if self._notifier is None:
            return True
        delivery = await self._notifier.notify(drift, now=now)
        for failure in delivery.failures:
            self._console.warning(failure.message)
            self._console.hint(failure.hint)
        is_saved = True
        if delivery.delivered:
            try:
                self._write()
            except KquotaError as error:
                is_saved = False
                self._console.warning(f"what was sent could not be written down: {error.message}")
        return is_saved and not delivery.failures

    def _make_notifier(self, telling: NotificationOptions, clock: "Clock") -> "Notifier":
        from reconciler.notify import NotificationState, Notifier, read_notification_state

        state = NotificationState()
        if self._file.exists():
            from reconciler.base.text_files import read_text

            state = read_notification_state(read_text(self._file), location=str(self._file))
        key = None if telling.key is None else secret("--notify-key", telling.key)
        posts = [
            _post(self._console, receiver, key, clock)
            for receiver in dict.fromkeys(telling.receivers)
        ]
        return Notifier(posts, remind_after=telling.remind_after, state=state)

    def _write(self) -> None:
        from reconciler.base.text_files import write_text
        from reconciler.notify import notification_state_text

        if self._notifier is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(f"{self._file.parent} cannot be made: {error.strerror}") from error
        write_text(self._file, notification_state_text(self._notifier.state), private=True)


def _post(console: Console, spec: str, key: str | None, clock: "Clock") -> "HttpReceiver":
    from reconciler.notify import endpoint
    from reconciler.notify.http_receiver import HttpReceiver, MessageFormat

    shape, equals, source = spec.partition("=")
    if not equals or shape not in SHAPES:
        # Whatever stands here may be an address with its secret: it is not repeated.
        raise UsageError(
            "--notify is not of the form SHAPE=env:NAME or SHAPE=file:PATH",
            hint=f"shapes are {', '.join(SHAPES)}; for example --notify slack=env:SLACK_WEBHOOK_URL",
        )
    url = secret(f"--notify {shape}", source)
    to = endpoint(spec, url, key=None if shape == "slack" else key)
    if to.is_open:
        console.warning(f"{spec}: messages to {to.origin} are not encrypted")
    if key is None and shape == "webhook":
        console.warning(f"{spec}: messages are not signed, so they can be forged; see --notify-key")
    return HttpReceiver(MessageFormat(shape), to, clock=clock, random=random.SystemRandom().random)


def secret(option: str, source: str) -> str:
    """The text behind ``env:NAME`` or ``file:PATH``. A literal is refused: every process can read command lines.

    Raises:
        UsageError: It is neither. The message does not show it.
        ConfigError: There is nothing.
    """
    kind, _, place = source.partition(":")
    if kind == "env" and place:
        value_text = os.environ.get(place, "")
        if not value_text.strip():
            raise ConfigError(f"the variable {place} is not set or empty", key=option)
        return value_text
    if kind == "file" and place:
        return _read(option, Path(place))
    raise UsageError(
        f"{option} takes env:NAME or file:PATH, not the secret itself",
        hint="command lines can be read by every user of the machine, and end up in logs",
    )


def _read(option: str, path: Path) -> str:
    try:
        content = read_regular(path, max_bytes=MOST_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ConfigError(f"{path} is too long for a secret", key=option) from error
        raise ConfigError(f"{path} cannot be read: {error.strerror}", key=option) from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no text", key=option) from None
    if not text.strip():
        raise ConfigError(f"{path} is empty", key=option)
    return text
