"""Reader of a failed command, which the actions of a code host write with a few lines of shell."""

from typing import Final, Literal

from reconciler.codecs.reader import Document, edited, typed
from reconciler.render.markdown.failure import SENTENCES, CommandFailure

KIND: Final = "kquota-failure"
FORMAT: Final = 1


class FailureFile(Document, frozen=True, kw_only=True, tag=KIND):
    """The document."""

    command: str
    exit_code: int
    format: Literal[1]
    messages: list[str]


def read_failure(text: str, *, location: str) -> CommandFailure:
    """Read a failure that the actions wrote.

    Raises:
        ConfigError: It is not such a document.
    """
    file = typed(text, FailureFile, format_version=FORMAT, location=location)
    if file.command not in SENTENCES:
        raise edited(f"command should be one of {', '.join(sorted(SENTENCES))}", location)
    return CommandFailure(
        command=file.command, exit_code=file.exit_code, messages=tuple(file.messages)
    )
