"""Reader of a failed command, which the actions of a code host write with a few lines of shell."""

from typing import Final

from reconciler.codecs.reader import DocumentReader, load
from reconciler.render.markdown.failure import SENTENCES, CommandFailure

KIND: Final = "kquota-failure"
FORMAT: Final = 1


def read_failure(text: str, *, location: str) -> CommandFailure:
    """Read a failure that the actions wrote."""
    top = load(text, kind=KIND, format_version=FORMAT, location=location)
    fields = top.fields("kind", "format", "command", "exitCode", "messages")
    return CommandFailure(
        command=fields["command"].choice(SENTENCES),
        exit_code=fields["exitCode"].integer(),
        messages=fields["messages"].rows(DocumentReader.text),
    )
