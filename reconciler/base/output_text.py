"""The last step before text is written to a terminal, a log or another program: it contains no control sequences.

Every renderer escapes names for its own format (``escaping``). All of them share this last step, so that a name that
one of them missed, or a message of a library, is still only text. Text that is escaped already stays unchanged.
"""

import re
from typing import Final

from reconciler.base.escaping import escape, is_shown

_COLOUR: Final = r"\x1b\[[0-9;]{0,12}m"
_LAYOUT: Final = {ord("\n"): None, ord("\t"): None}
# The icon of comments that need attention: the variation selector asks for its coloured form. Names never contain it
# here, because renderers escape it in them.
_WARNING_SIGN: Final = "\u26a0\ufe0f"
_UNUSUAL: Final = re.compile(rf"(?P<colour>{_COLOUR})|{_WARNING_SIGN}|[^\n\t\x20-\x7e]")

# "##[" and "##vso[" are commands to Azure Pipelines anywhere in a line, "##teamcity[" to TeamCity; "section_start:"
# begins a fold of GitLab's log. In JSON and in YAML's double quotes the escape is the same text after parsing.
_MARKER: Final = re.compile(r"##(?=[A-Za-z.]*\[)|(?P<section>section_(?:start|end)):")

# A line "::name parameters::message" is a command to GitHub's runner, which ignores leading blanks.
_WORKFLOW_COMMAND: Final = re.compile(
    r"^([^\S\n]*):(?=:[A-Za-z][\w-]*(?:[^\S\n][^\n]*)?::)", re.MULTILINE
)


# There is no second way to a terminal or a log: docs/adr/text-exit.md.
def output_text(text: str, *, colours: bool = False) -> str:
    """Escape text of any format for output.

    Args:
        text: Lines; line feeds and tabs stay.
        colours: Whether kquota's colour codes are kept.
    """
    if not (text.isascii() and text.translate(_LAYOUT).isprintable()):
        text = _UNUSUAL.sub(lambda match: _visible_text(match, colours=colours), text)
    if "##" in text or "section_" in text:
        text = _MARKER.sub(_escape_command, text)
    return _WORKFLOW_COMMAND.sub(r"\1\\u003a", text) if "::" in text else text


def _visible_text(match: re.Match[str], *, colours: bool) -> str:
    if match["colour"]:
        return match[0] if colours else match[0].replace("\x1b", escape("\x1b"))
    return match[0] if match[0] == _WARNING_SIGN or is_shown(match[0]) else escape(match[0])


def _escape_command(match: re.Match[str]) -> str:
    return f"{match['section']}\\u003a" if match["section"] else "#\\u0023"


def json_text(text: str) -> str:
    """Escape CI markers in ASCII JSON; the parsed value stays the same. No line of it begins with ``::``."""
    has_markers = "section_" in text or ("#" in text and "##" in text)  # the first is faster
    return _MARKER.sub(_escape_command, text) if has_markers else text
