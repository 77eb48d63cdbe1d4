"""Reader of a failed command, which the actions of a code host write with a few lines of shell."""

from typing import Final, Literal

from msgspec import Struct

from reconciler.codecs.reader import edited, typed
from reconciler.render.markdown.failure import SENTENCES, CommandFailure

KIND: Final = "kquota-failure"
FORMAT: Final = 1


class FailureFile(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="camel",
    tag_field="kind",
    tag=KIND,
):
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
    file = typed(text, FailureFile, kind=KIND, format_version=FORMAT, location=location)
    if file.command not in SENTENCES:
        raise edited(f"command should be one of {', '.join(sorted(SENTENCES))}", location)
    return CommandFailure(
        command=file.command, exit_code=file.exit_code, messages=tuple(file.messages)
    )
