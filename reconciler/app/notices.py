"""Messages of use cases beside their results: warnings, hints, notes and progress. The caller decides how to print them."""

import logging
from collections.abc import Iterable
from typing import Final, Protocol

from msgspec import Struct

from reconciler.base.escaping import escaped

_LOG: Final = logging.getLogger("reconciler.loop")


class TextReceiver(Protocol):
    """A receiver of texts."""

    def note(self, text: str) -> None:
        """Receive a message about what happens."""

    def warning(self, text: str) -> None:
        """Receive a warning."""

    def hint(self, text: str) -> None:
        """Receive advice on what to do next; "" = none."""


class Notices(TextReceiver, Protocol):
    """A receiver of texts and progress; a command line prints them, a library user may log them."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """Receive progress of long work; a total of 0 = unknown. Called often."""


class Notice(Struct, frozen=True, kw_only=True):
    """A message of a use case."""

    kind: str  # `note`, `warning` or `hint`
    text: str


class NoticeLog:
    """Stores the texts of one of several concurrent clusters in order of arrival. Implements ``Notices``."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def note(self, text: str) -> None:
        """Store a note."""
        self.notices.append(Notice(kind="note", text=text))

    def warning(self, text: str) -> None:
        """Store a warning."""
        self.notices.append(Notice(kind="warning", text=text))

    def hint(self, text: str) -> None:
        """Store a hint."""
        self.notices.append(Notice(kind="hint", text=text))

    def progress(self, phase: str, done: int, total: int) -> None:
        """Do nothing: the run reports the number of finished clusters."""


class LoggedNotices:
    """Logs the texts about one cluster. Implements ``Notices``."""

    def __init__(self, cluster: str) -> None:
        self._cluster = escaped(cluster)

    def note(self, text: str) -> None:
        """Log a note."""
        _LOG.info("%s: %s", self._cluster, text)

    def warning(self, text: str) -> None:
        """Log a warning."""
        _LOG.warning("%s: %s", self._cluster, text)

    def hint(self, text: str) -> None:
        """Log advice."""
        if text:
            self.note(text)

    def progress(self, phase: str, done: int, total: int) -> None:
        """Do nothing: a loop has no one who waits for it."""


def replay(notices: Iterable[Notice], to: TextReceiver) -> None:
    """Send stored texts to another receiver."""
    say = {"note": to.note, "warning": to.warning, "hint": to.hint}
    for notice in notices:
        say[notice.kind](notice.text)
