"""Where a use case says what happens beside its result: warnings, hints, notes and progress. The caller decides how they look."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class TextReceiver(Protocol):
    """A receiver of texts."""

    def note(self, text: str) -> None:
        """What happens."""
        ...

    def warning(self, text: str) -> None:
        """What may go wrong."""
        ...

    def hint(self, text: str) -> None:
        """What to do next; "" is nothing."""
        ...


class Notices(TextReceiver, Protocol):
    """A receiver of texts and of progress; a command line prints them, a library user may log them."""

    def progress(self, phase: str, done: int, total: int) -> None:
        """How far long work is; a total of 0 is not known. Called often."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One text that a use case said.

    Attributes:
        kind: ``note``, ``warning`` or ``hint``.
        text: The text.
    """

    kind: str
    text: str


class NoticeLog:
    """A receiver that keeps the texts for later, because several clusters speak at the same time. Implements ``Notices``.

    Attributes:
        notices: The texts, in the order in which they came.
    """

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notices.append(Notice(kind="note", text=text))

    def warning(self, text: str) -> None:
        """Keep a warning."""
        self.notices.append(Notice(kind="warning", text=text))

    def hint(self, text: str) -> None:
        """Keep a hint."""
        self.notices.append(Notice(kind="hint", text=text))

    def progress(self, phase: str, done: int, total: int) -> None:
        """Nothing: the run says how many clusters are done."""


def replay(notices: Iterable[Notice], to: TextReceiver) -> None:
    """Say kept texts to another receiver."""
    say = {"note": to.note, "warning": to.warning, "hint": to.hint}
    for notice in notices:
        say[notice.kind](notice.text)
