r"""Parses Java ``.properties`` text into key and value pairs with line numbers.

Rules of ``java.util.Properties.load`` (Java 17): a natural line ends at LF, CR or CRLF; blank lines and lines whose
first non-blank is ``#`` or ``!`` are skipped; an odd number of backslashes at the end joins the next natural line
without its leading blanks; the key ends at the first unescaped ``=``, ``:`` or blank; blanks around one separator are
dropped; blanks at the end of a value belong to it; ``\t \n \r \f`` and ``\uXXXX`` are escapes, any other escaped
character is itself. Of a repeated key the last value applies.
"""

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from reconciler.base.regular_files import read_regular
from reconciler.errors import ConfigError

_BLANKS: Final = " \t\f"
_SEPARATORS: Final = "=:"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
MAX_BYTES: Final = 4 * 1024 * 1024


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """One pair and its first line, counting from 1. The value may be a secret: not in ``repr``."""

    key: str
    value: str
    line: int

    def __repr__(self) -> str:
        return f"Property(key={self.key!r}, line={self.line})"


def parse(text: str, *, location: str = "") -> tuple[Property, ...]:
    r"""Return all pairs in the order of the text, repeated keys included.

    Args:
        location: Name of the file, for errors.

    Raises:
        ConfigError: A ``\u`` is not followed by four hexadecimal digits; nothing else is an error in Java.
    """
    properties = []
    for line, logical in _logical_lines(text):
        place = f"{location}:{line}" if location else f"line {line}"
        raw_key, raw_value = _split(logical)
        properties.append(
            Property(key=_unescape(raw_key, place), value=_unescape(raw_value, place), line=line)
        )
    return tuple(properties)


def read(path: Path) -> tuple[Property, ...]:
    """Return all pairs of a file. UTF-8 is tried first, then ISO-8859-1, as Java's ``load(InputStream)`` uses.

    Raises:
        ConfigError: The file cannot be read, exceeds 4 MiB, or is not a properties file.
    """
    return parse(decoded(read_bytes(path)), location=str(path))


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a configuration file, at most 4 MiB.

    Raises:
        ConfigError: The file cannot be read or is larger.
    """
    try:
        return read_regular(path, max_bytes=MAX_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            words = "is larger than 4 MiB, the limit for configuration files"
            raise ConfigError(words, location=str(path)) from None
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise ConfigError(f"cannot be read: {reason}", location=str(path)) from None


def decoded(content: bytes) -> str:
    """Decode a properties file: UTF-8 (a byte order mark is dropped), else ISO-8859-1."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending: list[str] = []
    start = 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        stripped = natural.lstrip(_BLANKS)
        if not pending:
            if not stripped or stripped[0] in "#!":
                continue
            start = number
        slashes = len(stripped) - len(stripped.rstrip("\\"))
        if slashes % 2:
            pending.append(stripped[:-1])
            continue
        yield start, "".join([*pending, stripped])
        pending = []
    if any(pending):
        yield start, "".join(pending)


def _split(logical: str) -> tuple[str, str]:
    end = 0
    while end < len(logical) and logical[end] not in _BLANKS + _SEPARATORS:
        end += 2 if logical[end] == "\\" else 1
    remainder = logical[end:].lstrip(_BLANKS)
    if remainder[:1] and remainder[0] in _SEPARATORS:
        remainder = remainder[1:].lstrip(_BLANKS)
    return logical[:end], remainder


def _unescape(raw: str, place: str) -> str:
    if "\\" not in raw:
        return raw
    characters: list[str] = []
    at = 0
    while at < len(raw):
        char = raw[at]
        if char != "\\":
            characters.append(char)
            at += 1
            continue
        escaped = raw[at + 1 : at + 2]
        if escaped == "u":
            digits = raw[at + 2 : at + 6]
            if len(digits) != 4 or not _HEX.issuperset(digits):
                raise ConfigError(
                    "\\u needs four hexadecimal digits",
                    location=place,
                    hint="write \\\\u for a backslash and a u",
                )
            characters.append(chr(int(digits, 16)))
            at += 6
            continue
        characters.append(_ESCAPES.get(escaped, escaped))
        at += 2
    # Java strings are UTF-16: two \u escapes may form one character.
    return "".join(characters).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
