"""``--notify`` and its options: receivers from environment and files, and the record of sent notifications."""

import errno
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reconciler.app.clusters.state_files import own_path
from reconciler.app.notices import TextReceiver
from reconciler.app.requests import NOTIFICATION_SHAPES, NotificationRequest
from reconciler.base.regular_files import read_regular
from reconciler.errors import ConfigError, KquotaError, UsageError

if TYPE_CHECKING:
    from reconciler.base.protocols import Clock
    from reconciler.notify.delivery import HttpReceiver
    from reconciler.notify.message import ClusterDrift
    from reconciler.notify.notifier import Notifier

MOST_BYTES: Final = 16 * 1024
"""Maximum bytes of a file with an address or a key."""


class DriftNotifications:
    """The receivers of one process and their notification state, which is stored in a file.

    Raises:
        ConfigError: An address or the state cannot be read. No secret is shown.
    """

    def __init__(
        self,
        notices: TextReceiver,
        notification_request: NotificationRequest,
        root: Path,
        clock: "Clock",
    ) -> None:
        from reconciler.base.installation import needs

        self._notices = notices
        self._file = notification_request.state or Path()
        self._notifier: Notifier | None = None
        if notification_request.receivers:
            self._file = notification_request.state or own_path(
                root, ".kquota/notified.json", content_name="reported drift"
            )
            needs("http", "--notify")
            self._notifier = self._make_notifier(notification_request, clock)

    async def notify(self, drift: "ClusterDrift", now: float) -> bool:
        """Notify each receiver that is due and record it at once; return whether all received it and the record was saved."""
        if self._notifier is None:
            return True
        delivery = await self._notifier.notify(drift, now=now)
        for failure in delivery.failures:
            self._notices.warning(failure.message)
            self._notices.hint(failure.hint)
        is_saved = True
        if delivery.delivered:
            try:
                self._write()
            except KquotaError as error:
                is_saved = False
                self._notices.warning(
                    f"the notification state could not be written: {error.message}"
                )
        return is_saved and not delivery.failures

    def _make_notifier(
        self, notification_request: NotificationRequest, clock: "Clock"
    ) -> "Notifier":
        from reconciler.notify.notification_state import NotificationState, read_notification_state
        from reconciler.notify.notifier import Notifier

        state = NotificationState()
        if self._file.exists():
            from reconciler.base.text_files import read_text

            state = read_notification_state(read_text(self._file), location=str(self._file))
        posts = [
            _post(self._notices, receiver, clock)
            for receiver in dict.fromkeys(notification_request.receivers)
        ]
        return Notifier(posts, remind_after=notification_request.remind_after, state=state)

    def _write(self) -> None:
        from reconciler.base.durable_files import make_private_folder
        from reconciler.base.text_files import write_text
        from reconciler.notify.notification_state import notification_state_text

        if self._notifier is None:
            return
        try:
            make_private_folder(self._file.parent)
        except OSError as error:
            raise ConfigError(f"{self._file.parent} cannot be created: {error.strerror}") from error
        write_text(
            self._file, notification_state_text(self._notifier.state), private=True, may_leave=True
        )


def _post(notices: TextReceiver, spec: str, clock: "Clock") -> "HttpReceiver":
    from reconciler.notify.delivery import HttpReceiver
    from reconciler.notify.endpoint import endpoint
    from reconciler.notify.shapes import MessageShape

    shape_name, equals, source = spec.partition("=")
    if not equals or shape_name not in NOTIFICATION_SHAPES:
        # The value may be a URL with a secret, so the message does not quote it.
        raise UsageError(
            "--notify is not of the form SHAPE=env:NAME or SHAPE=file:PATH",
            hint=f"shapes are {', '.join(NOTIFICATION_SHAPES)}; for example --notify slack=env:SLACK_WEBHOOK_URL",
        )
    url = secret(f"--notify {shape_name}", source)
    shape = MessageShape(shape_name)
    to = endpoint(spec, url)
    if to.is_open:
        notices.warning(f"{spec}: messages to {to.origin} are not encrypted")
    return HttpReceiver(shape, to, clock=clock, random=random.SystemRandom().random)


def secret(option: str, source: str) -> str:
    """Return the text of ``env:NAME`` or ``file:PATH``. A literal is refused: every process can read command lines.

    Raises:
        UsageError: It is neither. The message does not show it.
        ConfigError: The variable or file is missing or empty.
    """
    kind, _, place = source.partition(":")
    if kind == "env" and place:
        value_text = os.environ.get(place, "")
        if not value_text.strip():
            raise ConfigError(
                f"{option}: the environment variable {place} is not set or empty", key=option
            )
        return value_text
    if kind == "file" and place:
        return _read(option, Path(place))
    raise UsageError(
        f"{option} takes env:NAME or file:PATH, not the secret itself",
        hint="command lines can be read by all users of the machine and appear in logs",
    )


def _read(option: str, path: Path) -> str:
    try:
        content = read_regular(path, max_bytes=MOST_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ConfigError(f"{option}: {path} is too long for a secret", key=option) from error
        raise ConfigError(
            f"{option}: {path} cannot be read: {error.strerror}", key=option
        ) from error
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{option}: {path} is not UTF-8 text", key=option) from None
    if not text.strip():
        raise ConfigError(f"{option}: {path} is empty", key=option)
    return text
