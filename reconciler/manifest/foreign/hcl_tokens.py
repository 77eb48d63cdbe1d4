"""HCL 2 text to tokens with lines: comments and blanks left out, strings unescaped, templates only matched."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.errors import ManifestErrors, Problem

_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
      | (?P<line>\n)
      | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<word>[^\W\d][\w-]*)
      | (?P<heredoc><<-?(?P<stop>[^\W\d][\w-]*)[ \t\r]*\n)
      | (?P<quote>")
      | (?P<mark>=>|==|!=|<=|>=|&&|\|\||\.\.\.|[-+*/%=(){}\[\]:,.?!<>])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class HclToken:
    """One token.

    Attributes:
        kind: ``string`` (one without templates), ``template``, ``heredoc``, ``number``, ``word``, ``mark``, ``line``
            (its end) or ``end``.
        text: What it says; of a string its content.
        line: Where it begins, from 1.
    """

    kind: str
    text: str
    line: int


MOST_TEMPLATES: Final = 50
"""Templates inside templates."""


def not_hcl(path: str, line: int, message: str) -> ManifestErrors:
    """An error about a text."""
    return ManifestErrors([Problem(path, line, 0, f"not HCL: {message}")])


def tokens(text: str, path: str) -> Iterator[HclToken]:
    """Every token.

    Raises:
        ManifestErrors: A character that begins no token, or a string, template or heredoc without an end.
    """
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise not_hcl(path, line, f"{text[at]!r} does not belong here")
        kind, end = match.lastgroup or "", match.end()
        if kind == "quote":
            content, end = _string(text, end, path, line)
            yield HclToken("template" if content is None else "string", content or "", line)
        elif kind == "heredoc":
            end = _heredoc(text, end, match["stop"], path, line)
            yield HclToken("heredoc", "", line)
        elif kind != "blank":
            yield HclToken(kind, match.group(), line)
        line += text.count("\n", at, end)
        at = end


def _string(text: str, at: int, path: str, line: int, depth: int = 0) -> tuple[str | None, int]:
    """What a string holds (``None`` if a template is in it) and where it ends; ``at`` is behind its quote."""
    parts: list[str] = []
    template = False
    while True:
        character = text[at : at + 1]
        if character in {"", "\n"}:
            raise not_hcl(path, line, "a string does not end")
        if character == '"':
            return None if template else "".join(parts), at + 1
        if text[at : at + 3] in {"$${", "%%{"}:
            parts.append(text[at + 1 : at + 3])
            at += 3
        elif text[at : at + 2] in {"${", "%{"}:
            template = True
            at = _template_end(text, at + 2, path, line, depth + 1)
        elif character == "\\":
            content, at = _escape(text, at + 1, path, line)
            parts.append(content)
        else:
            parts.append(character)
            at += 1


def _escape(text: str, at: int, path: str, line: int) -> tuple[str, int]:
    character = text[at : at + 1]
    if character in _ESCAPES:
        return _ESCAPES[character], at + 1
    width = {"u": 4, "U": 8}.get(character, 0)
    digits = text[at + 1 : at + 1 + width]
    if width and len(digits) == width and re.fullmatch("[0-9a-fA-F]+", digits):
        code = int(digits, 16)
        if code < 0x110000:
            return chr(code), at + 1 + width
    raise not_hcl(path, line, f"\\{character} is no escape")


def _template_end(text: str, at: int, path: str, line: int, depth: int) -> int:
    if depth > MOST_TEMPLATES:
        raise not_hcl(path, line, f"templates are nested deeper than {MOST_TEMPLATES} levels")
    braces = 1
    while braces:
        character = text[at : at + 1]
        if not character:
            raise not_hcl(path, line, "a template does not end")
        at += 1
        if character == '"':
            _, at = _string(text, at, path, line, depth)
        elif character in "{}":
            braces += 1 if character == "{" else -1
    return at


def _heredoc(text: str, at: int, word: str, path: str, line: int) -> int:
    end = re.compile(rf"^[ \t]*{re.escape(word)}[ \t\r]*$", re.MULTILINE).search(text, at)
    if end is None:
        raise not_hcl(path, line, f"the heredoc {word} does not end")
    return end.end()
