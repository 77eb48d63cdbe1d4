"""What use cases say, on a console: notes, warnings and hints on standard error, and one progress line."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from reconciler.cli.framework.console import Console, ProgressLine


class ConsoleNotices:
    """A receiver of notices that prints them. Implements ``app.notices.Notices``; a context, so that a bar is wiped away.

    Args:
        console: Where they go.
        monotonic: Seconds that never go back; tests pass their own.
    """

    def __init__(
        self, console: Console, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._line = ProgressLine(console, monotonic=monotonic)
        self.note, self.warning, self.hint = console.note, console.warning, console.hint

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.__exit__(kind, error, trace)

    def progress(self, phase: str, done: int, total: int) -> None:
        """Show how far a phase is; one of unknown length only on a terminal."""
        if total or self._console.err_terminal:
            self._line(phase, done, total)
