"""Log records of a program that serves for days: as text for people, or one JSON object per line. Standard error only."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from reconciler.base.escaping import escaped
from reconciler.base.output_text import json_text
from reconciler.base.redaction import redact_known
from reconciler.cli.framework.tracebacks import traceback_text

FORMATS: Final = ("text", "json")
_QUIET: Final = ("kopf", "aiohttp", "kubernetes", "asyncio", "urllib3")
"""Libraries of others: only warnings, because what they say below may quote requests."""


class JsonLogFormatter(logging.Formatter):
    """``{"time": ..., "level": ..., "logger": ..., "message": ...}``; an error has its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in the message."""
        record_fields: dict[str, str] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            record_fields["error"] = traceback_text(record.exc_info[1])
        return json_text(
            json.dumps({name: redact_known(text) for name, text in record_fields.items()})
        )


class TextLogFormatter(logging.Formatter):
    """Time, level and message; nothing in a message or a traceback forges a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        message = escaped(redact_known(record.getMessage()))
        line = f"{_time(record)} {record.levelname.lower():<8} {message}"
        if record.exc_info is None or record.exc_info[0] is None:
            return line
        return f"{line}\n{traceback_text(record.exc_info[1])}"


def _time(record: logging.LogRecord) -> str:
    stamp = datetime.fromtimestamp(record.created, UTC)
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log_to_stderr(form: str, *, level: int = logging.INFO) -> None:
    """Send everything to standard error from now on; earlier handlers go.

    Args:
        form: ``text`` or ``json``.
        level: The level of our own log records.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormatter() if form == "json" else TextLogFormatter())
    root = logging.getLogger()
    for root_handler in root.handlers[:]:
        root.removeHandler(root_handler)
    root.addHandler(handler)
    logging.captureWarnings(capture=True)
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
