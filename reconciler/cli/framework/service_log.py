"""Log records of a process that serves: one line each on standard error, with a time, nothing in them forged.

Under systemd the journal keeps the time and reads the level from the ``<N>`` in front (sd-daemon(3)).
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.base.escaping import escaped
from reconciler.base.redaction import redact_known
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.tracebacks import traceback_text
from reconciler.render.units import instant

_LOGGERS: Final = ("reconciler", "asyncio")
_JOURNAL: Final = {
    logging.CRITICAL: 2,
    logging.ERROR: 3,
    logging.WARNING: 4,
    logging.INFO: 6,
    logging.DEBUG: 7,
}


class OneLineFormatter(logging.Formatter):
    """``2026-01-02T03:04:05Z WARNING prod: what happened``, or ``<4>prod: what happened`` for the journal.

    Args:
        journal: Whether the journal reads it.
    """

    def __init__(self, *, journal: bool) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, a traceback included."""
        words = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            words += " | " + " | ".join(traceback_text(record.exc_info[1]).split("\n"))
        words = escaped(redact_known(words))
        if self._journal:
            return f"<{_JOURNAL.get(record.levelno, 5)}>{words}"
        return f"{instant(record.created)} {record.levelname} {words}"


class _ServiceLogHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.note(self.format(record))


@contextlib.contextmanager
def logged(console: Console, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """While the context lasts, our log records and those of asyncio go to standard error."""
    handler = _ServiceLogHandler(console)
    handler.setFormatter(OneLineFormatter(journal="JOURNAL_STREAM" in environment))
    before = [(log := logging.getLogger(name), log.level, log.propagate) for name in _LOGGERS]
    for log, _, _ in before:
        log.addHandler(handler)
        log.propagate = False
    logging.getLogger("reconciler").setLevel(logging.INFO)
    try:
        yield
    finally:
        for log, level, propagate in before:
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate
