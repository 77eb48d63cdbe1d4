"""Log formats of long-running commands on standard error: one line of text, one JSON object, or the systemd journal.

The journal records the time itself and reads the level from the ``<N>`` prefix (sd-daemon(3)).
"""

import contextlib
import gc
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from reconciler.base.escaping import escaped
from reconciler.base.output_text import json_text
from reconciler.base.redaction import redact_known
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.diagnostics import traceback_text
from reconciler.render.units import instant

_QUIET: Final = ("kopf", "aiohttp", "kubernetes", "asyncio", "urllib3")
"""Third-party loggers, limited to warnings: their lower levels may quote requests."""


class JsonLogFormatter(logging.Formatter):
    """``{"time": ..., "level": ..., "logger": ..., "message": ...}``, and the traceback of an error as ``error``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        stamp = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        record_fields: dict[str, str] = {
            "time": stamp.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            record_fields["error"] = traceback_text(record.exc_info[1])
        return json_text(
            json.dumps({name: redact_known(text) for name, text in record_fields.items()})
        )


class OneLineFormatter(logging.Formatter):
    """``2026-01-02T03:04:05Z WARNING prod: message``, or ``<4>prod: message`` for the journal."""

    def __init__(self, *, journal: bool = False) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, a traceback included."""
        words = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            words += " | " + " | ".join(traceback_text(record.exc_info[1]).split("\n"))
        words = escaped(redact_known(words))
        if self._journal:
            return f"<{_JOURNAL.get(record.levelno, 5)}>{words}"
        return f"{instant(record.created)} {record.levelname} {words}"


def log_to_stderr(form: str, *, level: int = logging.INFO) -> None:
    """Send all log records to standard error; replaces existing handlers.

    Args:
        form: ``text`` or ``json``.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormatter() if form == "json" else OneLineFormatter())
    root = logging.getLogger()
    for root_handler in root.handlers[:]:
        root.removeHandler(root_handler)
    root.addHandler(handler)
    logging.captureWarnings(capture=True)
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


_USUAL_COLLECTION: Final = 700
"""CPython's default threshold of the cyclic garbage collector; short-lived commands raise it."""

_LOGGERS: Final = ("reconciler", "asyncio")
_JOURNAL: Final = {
    logging.CRITICAL: 2,
    logging.ERROR: 3,
    logging.WARNING: 4,
    logging.INFO: 6,
    logging.DEBUG: 7,
}


class _ConsoleHandler(logging.Handler):
    """Passes each record to the console as a message."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.note(self.format(record))


@contextlib.contextmanager
def log_records(console: Console, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Send log records of kquota and asyncio to standard error while the context is active."""
    handler = _ConsoleHandler(console)
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


def collect_as_usual() -> None:
    """Restore CPython's default garbage collection threshold, so that the memory of a long-running command does not grow."""
    gc.set_threshold(_USUAL_COLLECTION)
