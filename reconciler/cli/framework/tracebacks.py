"""A traceback as text that may be shown: without secrets, and with nothing in it that acts on a screen or a CI host."""

import traceback

from reconciler.base.escaping import escaped_lines
from reconciler.base.redaction import redact_known


def traceback_text(error: BaseException | None) -> str:
    """The traceback of an error, its causes included; every line of it is escaped, those of messages too."""
    if error is None:
        return ""
    return escaped_lines(redact_known("".join(traceback.format_exception(error)).rstrip()))
