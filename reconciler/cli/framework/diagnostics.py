"""Routes diagnostics of the interpreter and of libraries to the console: warnings, failed threads, unhandled log records.

Their messages may contain broker messages or secrets, so the console escapes and redacts them.
"""

import logging
import sys
import threading
import warnings
from typing import TextIO

from reconciler.cli.framework.console import Console


class DiagnosticsHandler(logging.Handler):
    """Prints log records without another handler, such as those of asyncio in a command that ends."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record as a warning, and its traceback below it."""
        from reconciler.base.redaction import redact_known

        self._console.warning(redact_known(_message(record)))
        if record.exc_info is not None and record.exc_info[1] is not None:
            self._console.note(traceback_text(record.exc_info[1]))


def _message(record: logging.LogRecord) -> str:
    """Return the message of a record; format and arguments if they do not match, since a log line must not end a command."""
    try:
        return record.getMessage()
    except (KeyError, TypeError, ValueError):
        return f"{record.msg} {record.args}"


def escape_diagnostics(console: Console) -> None:
    """Install the hooks that send warnings, stray log records and uncaught errors to the console, for the whole process."""

    def warn(  # noqa: PLR0917 - the signature of warnings.showwarning
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:

        from reconciler.base.redaction import redact_known

        del file, line
        console.warning(redact_known(f"{filename}:{lineno}: {category.__name__}: {message}"))

    def died(name: str, error: BaseException | None) -> None:

        if error is not None and not isinstance(error, SystemExit):
            console.error(name)
            console.note(traceback_text(error))

    logging.lastResort = DiagnosticsHandler(console)
    warnings.showwarning = warn
    threading.excepthook = lambda hook_arguments: died(
        "unhandled error in a thread", hook_arguments.exc_value
    )
    sys.unraisablehook = lambda unraisable: died("unhandled error at exit", unraisable.exc_value)
    sys.excepthook = lambda _, error, __: died("unhandled error", error)


def traceback_text(error: BaseException | None) -> str:
    """Return the traceback of an error and its causes, escaped line by line and redacted."""
    if error is None:
        return ""
    import traceback

    from reconciler.base.escaping import escaped_lines
    from reconciler.base.redaction import redact_known

    return escaped_lines(redact_known("".join(traceback.format_exception(error)).rstrip()))
