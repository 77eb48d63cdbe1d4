"""Parser of the part of HCL 2 that resource blocks with literal attributes need: text to tokens to blocks, with lines.

Everything else is skipped with matching braces, strings, templates, heredocs and comments. An expression that
is not a literal (a variable, a function, a template) becomes an ``HclExpression``: nothing is evaluated.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

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
    """One token."""

    # `string` (one without templates), `template`, `heredoc`, `number`, `word`, `mark`, `line` (its end) or `end`.
    kind: str
    text: str  # its text; of a string its content
    line: int


MOST_TEMPLATES: Final = 50
"""Maximum nesting of templates."""


def not_hcl(path: str, line: int, message: str) -> ManifestErrors:
    """Return an error about a text."""
    return ManifestErrors([Problem(path, line, 0, f"not HCL: {message}")])


def tokens(text: str, path: str) -> Iterator[HclToken]:
    """Yield every token.

    Raises:
        ManifestErrors: A character that begins no token, or a string, template or heredoc without an end.
    """
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise not_hcl(path, line, f"unexpected {text[at]!r}")
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
    """Return the content of a string (``None`` if it has a template) and its end; ``at`` is after its opening quote."""
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
    raise not_hcl(path, line, f"\\{character} is not an escape")


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


_CLOSING: Final = {"{": "}", "[": "]", "(": ")"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HclLiteral:
    """A literal string or number."""

    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HclObject:
    """An object with literal keys, in the order of the file; values that are not literal are ``HclExpression``."""

    entries: tuple[tuple[str, "Value"], ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HclExpression:
    """An expression that would have to be evaluated."""

    text: str
    line: int


Value: TypeAlias = HclLiteral | HclObject | HclExpression


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceBlock:
    """One resource block."""

    type: str  # first label
    name: str  # second label
    line: int
    attributes: dict[str, Value]  # name to value, in the order of the file
    blocks: tuple[str, ...]  # names of the blocks inside
    # Attributes of the `entity` blocks, in the order of the file.
    entities: tuple[dict[str, Value], ...] = ()


MOST_DEPTH: Final = 100
"""Maximum depth of objects in one value. Terraform's own modules have fewer than ten levels."""


def resources(text: str, path: str) -> list[ResourceBlock]:
    """Return every top-level ``resource`` block.

    Raises:
        ManifestErrors: The text is not HCL, as far as it must be read.
    """
    return _HclParser(list(tokens(text.removeprefix("\ufeff"), path)), path).resources()


class _HclParser:
    """Parser state: the tokens of one file and the current position."""

    def __init__(self, token_list: list[HclToken], path: str) -> None:
        last = token_list[-1].line if token_list else 1
        self._tokens = [*token_list, HclToken("end", "", last)]
        self._path = path
        self._at = 0
        self._depth = 0

    def resources(self) -> list[ResourceBlock]:
        resource_list: list[ResourceBlock] = []
        while self._peek().kind != "end":
            if self._peek().kind == "line":
                self._at += 1
                continue
            name, labels = self._header()
            if self._is("="):
                self._at += 1
                _ = self._value()
            elif name.text == "resource" and len(labels) == 2:
                entities: list[dict[str, Value]] = []
                attributes, blocks = self._body(entities)
                resource_list.append(
                    ResourceBlock(
                        type=labels[0],
                        name=labels[1],
                        line=name.line,
                        attributes=attributes,
                        blocks=blocks,
                        entities=tuple(entities),
                    )
                )
            else:
                self._skip()
        return resource_list

    def _peek(self) -> HclToken:
        """Return the next token; after the last one, always the end token."""
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _is(self, mark: str) -> bool:
        return self._peek().kind == "mark" and self._peek().text == mark

    def _wrong(self, message: str) -> ManifestErrors:
        return not_hcl(self._path, self._peek().line, message)

    def _lines(self) -> None:
        while self._peek().kind == "line" or self._is(","):
            self._at += 1

    def _header(self) -> tuple[HclToken, list[str]]:
        """Read a name with its labels, up to the brace or the equals sign."""
        name = self._peek()
        if name.kind != "word":
            raise self._wrong("a name is missing")
        labels: list[str] = []
        self._at += 1
        while self._peek().kind in {"string", "word"}:
            labels.append(self._peek().text)
            self._at += 1
        if not self._is("{") and not (self._is("=") and not labels):
            raise self._wrong(f"{{ or = is missing after {name.text}")
        return name, labels

    def _body(
        self, entities: list[dict[str, Value]] | None = None
    ) -> tuple[dict[str, Value], tuple[str, ...]]:
        """Read the body of a block; blocks named ``entity`` are added to ``entities``, others skipped."""
        attributes: dict[str, Value] = {}
        blocks: list[str] = []
        self._at += 1
        while True:
            while self._peek().kind == "line":
                self._at += 1
            if self._is("}"):
                self._at += 1
                return attributes, tuple(blocks)
            name, labels = self._header()
            if self._is("{"):
                blocks.append(" ".join((name.text, *labels)))
                if name.text == "entity" and not labels and entities is not None:
                    entities.append(self._body()[0])
                else:
                    self._skip()
                continue
            self._at += 1
            if name.text in attributes:
                raise self._wrong(f"{name.text} is given twice")
            attributes[name.text] = self._value()

    def _skip(self) -> None:
        """Skip a block, from its brace to after the closing one."""
        open_: list[str] = []
        while True:
            token = self._peek()
            if token.kind == "end":
                raise self._wrong("a brace is missing")
            self._at += 1
            if token.kind == "mark" and token.text in _CLOSING:
                open_.append(_CLOSING[token.text])
            elif token.kind == "mark" and token.text in _CLOSING.values():
                if open_.pop() != token.text:
                    raise self._wrong(f"unmatched {token.text}")
                if not open_:
                    return

    def _value(self) -> Value:
        """Read one expression: literal, object of literals, or skipped."""
        start = self._at
        token = self._peek()
        value: Value | None = None
        if token.kind in {"string", "number"}:
            self._at += 1
            value = HclLiteral(text=token.text, line=token.line)
        elif self._is("-") and self._tokens[start + 1].kind == "number":
            self._at += 2
            value = HclLiteral(text=f"-{self._tokens[start + 1].text}", line=token.line)
        elif self._is("{"):
            if self._depth >= MOST_DEPTH:
                raise self._wrong(f"objects are nested deeper than {MOST_DEPTH} levels")
            self._depth += 1
            value = self._mapping()
            self._depth -= 1
        after = self._peek()
        if value is not None and (after.kind in {"line", "end"} or self._is(",") or self._is("}")):
            return value
        self._at = start
        return self._unread()

    def _unread(self) -> HclExpression:
        first = self._at
        while not (self._peek().kind in {"line", "end"} or self._is(",") or self._is("}")):
            if self._peek().kind == "mark" and self._peek().text in _CLOSING:
                self._skip()
            elif self._is("]") or self._is(")"):
                raise self._wrong(f"unmatched {self._peek().text}")
            else:
                self._at += 1
        if self._at == first:
            raise self._wrong("a value is missing")
        words = " ".join(
            token.text or token.kind
            for token in self._tokens[first : self._at]
            if token.kind != "line"
        )
        return HclExpression(text=words, line=self._tokens[first].line)

    def _mapping(self) -> HclObject | None:
        """Read an object; ``None`` if it is a ``for`` expression or has keys that would have to be evaluated."""
        line = self._peek().line
        entries: list[tuple[str, Value]] = []
        self._at += 1
        while True:
            self._lines()
            if self._is("}"):
                self._at += 1
                return HclObject(entries=tuple(entries), line=line)
            key = self._peek()
            self._at += 1
            if key.kind not in {"string", "word"} or not (self._is("=") or self._is(":")):
                return None
            self._at += 1
            entries.append((key.text, self._value()))
