"""Escapes foreign names for terminals, Markdown cells, CSV and workflow commands.

A Kafka principal may contain anything: pipes, back-ticks, ``@team``, line breaks, ANSI colours, right-to-left marks,
``::set-output``. All printed text passes one of these functions, so that a name can never forge a line, a
cell, a colour, a mention or a command of a CI runner. ``output_text`` runs after them and also protects JSON and
YAML, where names are written unchanged.

``quoted`` is the common first step. A plain name stays as it is; any other becomes a JSON string, so that the
default (``<default>``), the literal name ``"<default>"`` and the empty name ``""`` look different.

A text is shown in Unicode's normal form NFC, and what would change its form is escaped: a letter with a separate accent
looks like the same letter in one character, and is another name. A character is shown if it is visible at its own position. Control, format and unassigned characters are escaped, and
so are letters of right-to-left scripts, which reorder their neighbours, and default-ignorable characters, which are
invisible: ``admin`` and ``admin`` with a variation selector look the same.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final

UNICODE_VERSION: Final = "16.0.0"
"""The version of ``DerivedCoreProperties.txt`` whose Default_Ignorable_Code_Point is :data:`DEFAULT_IGNORABLE`."""

DEFAULT_IGNORABLE: Final = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""Ranges of code points, both ends included; 4,174 in all."""

BLANKS: Final = frozenset("\u2800")
"""Characters that are printable by their category but invisible: BRAILLE PATTERN BLANK."""

# Letters of right-to-left scripts and Arabic numbers reorder their neighbours, so that "10 -> 20" could be read as
# "20 -> 10".
_REORDERING: Final = frozenset({"R", "AL", "AN"})

_IGNORABLE: Final = re.compile(
    "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in DEFAULT_IGNORABLE) + "]"
)


@lru_cache(maxsize=4096)
def is_shown(character: str) -> bool:
    """Whether a character can be printed unchanged: visible, and without effect on its neighbours."""
    return (
        character.isprintable()
        and unicodedata.bidirectional(character) not in _REORDERING
        and _IGNORABLE.match(character) is None
        and character not in BLANKS
    )


def escape(character: str) -> str:
    r"""Return ``\uXXXX``, or ``\UXXXXXXXX`` above U+FFFF: the same in our text, in JSON up to U+FFFF, and in YAML."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    r"""Return ``\uXXXX``; above U+FFFF the two that JSON has for it."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


# A name without these characters, and without a leading "<", is not quoted.
_IS_PLAIN: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._@/+-]*"
).fullmatch  # most names, which nothing changes
_NEEDS_QUOTES: Final = re.compile(r'[",\\]|^<|^\s|\s$|^$')

# A line that begins with "::" is a command to GitHub's runner; "##[" and "##vso[" are commands anywhere.
_LONGEST_SEQUENCE: Final = 31
"""A letter and 30 accents, as in Unicode's stream-safe text format."""

_SECTION: Final = re.compile(r"(section_(?:start|end)):")  # a fold of GitLab's log
_ADDRESS: Final = re.compile(r"[0-9A-Fa-f:.%]+")


def escaped(text: str) -> str:
    r"""Escape text for one line: invisible and reordering characters become ``\uXXXX``; nothing is quoted."""
    return _without_commands(
        text if text.isascii() and text.isprintable() else _escape_hidden(text)
    )


def _escape_hidden(text: str) -> str:
    """Escape what is not shown, accents without a letter before them, and what NFC would replace, move or join."""
    parts: list[str] = []
    sequence = ""  # the last shown letter with its accents
    for character in text:
        is_accent = bool(unicodedata.combining(character))
        extended = sequence + character
        if (
            is_shown(character)
            and (sequence or not is_accent)
            and len(extended) <= _LONGEST_SEQUENCE
            and (extended.isascii() or unicodedata.is_normalized("NFC", extended))
        ):
            parts.append(character)
            sequence = extended if is_accent else character
        else:
            parts.append(_json_escape(character))
            sequence = ""
    return "".join(parts)


def escaped_lines(text: str) -> str:
    """Escape text of several lines; line breaks stay."""
    return "\n".join(map(escaped, text.split("\n")))


def _without_commands(text: str) -> str:
    if "##" in text:
        text = text.replace("##", "#\\u0023")
    if "section_" in text:
        text = _SECTION.sub(r"\1\\u003a", text)
    if text.lstrip().startswith("::") and not _ADDRESS.fullmatch(text):
        text = text.replace("::", ":\\u003a", 1)
    return text


def quoted(name: str) -> str:
    """Quote a name for a terminal: unchanged if it is plain, else a JSON string."""
    if _IS_PLAIN(name):
        return name
    safe = escaped(name.replace("\\", "\\\\")) if "\\" in name else escaped(name)
    if safe == name and not _NEEDS_QUOTES.search(name):
        return name
    return '"' + safe.replace('"', '\\"') + '"'


def markdown(text: str) -> str:
    """Format a name as inline code for Markdown, also in a table cell: no markup, mention, link or HTML takes effect.

    A code span suffices for nearly all names. Back-ticks, pipes and backslashes are treated differently by renderers
    (GFM unescapes a pipe even in code), so those become ``<code>`` with entities.
    """
    safe = escaped(text)
    if not safe or any(c in safe for c in "`|\\") or safe != safe.strip():
        return f"<code>{html(safe)}</code>"
    return f"`{safe}`"


def html(text: str) -> str:
    """Escape text for ``<code>`` and ``<pre>``, also in Markdown: no tag, markup or link can begin in it.

    Outside of code this is not enough: code hosts search for mentions and references in the rendered page, where
    ``&#64;team`` is ``@team`` again; see :func:`prose`.
    """
    return _CODE_MARKUP.sub(_entities, escaped(text))


# An underscore within a word is no emphasis (CommonMark 0.31, section 6.2), so names of keys stay readable.
_UNDERSCORES: Final = r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
# GFM converts addresses to links before it parses HTML, so also within <code>.
_ADDRESSES: Final = r":(?=//)|(?<=[Ww][Ww][Ww])\."
_CODE_MARKUP: Final = re.compile(rf"[\\`*\[\]<>&|~@$#!]|{_UNDERSCORES}|{_ADDRESSES}")

# GitHub and GitLab read these as references if a name follows: users, issues, merge requests, labels, emoji, ... The
# colon of an address counts too: GitLab links addresses in the rendered page, where an entity is a colon.
_REFERENCE: Final = (
    r"[@#!$~%&](?=[^\s,;.)])|:(?=//)|:(?=(?![0-9]{1,60}:)[a-z0-9_+-]{1,60}:|100:|1234:)"
    r"|(?<=[Gg][Hh])-(?=[0-9])"
)
# At the beginning of a line: headings, quotes, lists, underlines, indented code, and quick actions of GitLab.
_BEGINNING: Final = r"\A[ #>+=/-]|\A[0-9]{1,9}[.)](?=\s|\Z)"
_MARKUP: Final = re.compile(
    rf"(?P<reference>{_REFERENCE})|[\\`*\[\]<|~$]|{_UNDERSCORES}|{_BEGINNING}|(?<=[Ww][Ww][Ww])\."
)


def prose(text: str) -> str:
    """Escape a sentence with foreign words for Markdown, HTML and table cells: nothing in it is markup or a reference.

    Only a character that would be interpreted at its position becomes an entity; the rest stays readable as text. A
    sign that could begin a reference is put in ``<code>``, which separates the word for every such filter.
    """
    return _MARKUP.sub(_neutral, escaped(text))


def _neutral(match: re.Match[str]) -> str:
    text = _entities(match)
    return f"<code>{text}</code>" if match.lastgroup == "reference" else text


def _entities(match: re.Match[str]) -> str:
    return "".join(f"&#{ord(c)};" for c in match[0])


def command_text(text: str) -> str:
    """Escape the message of a GitHub workflow command (``::error::message``); line breaks are kept."""
    lines = (escaped(line) for line in text.split("\n"))
    return "%0A".join(line.replace("%", "%25") for line in lines)


def command_property(text: str) -> str:
    """Escape a property of a GitHub workflow command (``::error file=path,line=1::``)."""
    return command_text(text).replace(":", "%3A").replace(",", "%2C")
