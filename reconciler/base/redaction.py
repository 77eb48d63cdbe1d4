"""Removes secrets from text: credentials from URLs, and sent secrets from a peer's messages.

``redact_url`` and ``redact_urls`` are the only functions that prepare a URL for output. ``SecretScrubber`` hides
given secrets in text from outside. ``QuietRepr`` keeps fields out of logs. All are pure. Escaping is separate: see ``escaping``.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "(hidden)"
"""Replaces a secret in a URL."""

SCRUBBED: Final = "<hidden>"
"""Replaces a secret in other text."""

PIECE: Final = 8
"""Consecutive characters of a secret that are hidden even without the rest of it."""

_SHORTEST: Final = 4
_ORIGIN: Final = re.compile(r"^//|[A-Za-z][A-Za-z0-9+.\-]{0,63}:(?://|\\\\)")
_ENCODED_ORIGIN: Final = re.compile(r"%3A(?:%2F|/){2}|%3A%5C%5C", re.IGNORECASE)
_EXTRAS: Final = re.compile(r"[?#;]")
_SEPARATOR: Final = re.compile(r"[?#;&]")
_TRAILING: Final = "\"'`)]}>:;,."
_WORD: Final = re.compile(r"\S+")
_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As ``html.escape`` writes; that module loads two thousand names of characters."""


_MAX_NESTED: Final = 8
"""Times that escapes are decoded; text with more is not quoted."""

_ESCAPE: Final = re.compile(
    r"(?:%[0-9A-Fa-f]{2})+|(?:\\x[0-9A-Fa-f]{2})+|(?:\\[0-3][0-7]{2})+|(?:\\u[0-9A-Fa-f]{4})+|\\U[0-9A-Fa-f]{8}"
    r"|&#(?:[0-9]{1,9}|[xX][0-9A-Fa-f]{1,8});?"
)


def _unescaped(escape: re.Match[str]) -> str:
    """Return the characters of a run of escapes of one kind; bytes are UTF-8, else Latin-1."""
    text = escape[0]
    match text[0], text[1]:
        case "&", _:
            digits = text[2:].rstrip(";")
            code = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
        case "\\", "U":
            code = int(text.replace("\\U", "0x"), 16)
        case "\\", "u":
            return bytes.fromhex(text.replace("\\u", "")).decode("utf-16-be", "replace")
        case "\\", digit if digit != "x":
            return _of_bytes(bytes(int(octal, 8) for octal in text[1:].split("\\")))
        case _:
            return _of_bytes(bytes.fromhex(text.replace("\\x", "").replace("%", "")))
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def _of_bytes(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def redact_url(text: str) -> str:
    """Hide the credentials in one value that may be a URL.

    Userinfo is hidden, and so is everything after the first ``?``, ``#`` or ``;``. If an ``@`` follows a slash, it is
    not certain where the host begins: then the whole address is hidden, because a part could show half of a password,
    or a host that is not contacted. The value is one URL to its end, blanks included.
    """
    origin = _ORIGIN.search(text)
    if origin is not None:
        before = _WORD.sub(lambda word: _redacted_word(word.group()), text[: origin.start()])
        return before + origin.group() + _redacted_rest(text[origin.end() :])
    if _ENCODED_ORIGIN.search(text):
        return HIDDEN
    return _WORD.sub(lambda word: _redacted_word(word.group()), text)


def redact_urls(text: str) -> str:
    """Hide the credentials of all URLs in a sentence; each URL ends at the next blank."""
    return _WORD.sub(lambda word: _redacted_in_sentence(word.group()), text)


def _redacted_in_sentence(word: str) -> str:
    end = len(word.rstrip(_TRAILING))
    return redact_url(word[:end]) + word[end:]


def _redacted_word(word: str) -> str:
    """Hide credentials in a word without a scheme, such as ``user:password@host`` and ``/path?token=...``."""
    before, at, _ = word.rpartition("@")
    if at and ":" in before:
        return _redacted_rest(word)
    extra = _SEPARATOR.search(word)
    if extra is None or "=" not in word[extra.end() :]:
        return word
    return f"{word[: extra.end()]}{HIDDEN}"


def _redacted_rest(remainder: str) -> str:
    before, at, after = remainder.rpartition("@")
    if at:
        if re.search(r"[/\\?#;]", before):
            return HIDDEN
        return f"{HIDDEN}@{_without_extras(after)}"
    return _without_extras(remainder)


def _without_extras(text: str) -> str:
    extra = _EXTRAS.search(text)
    return text if extra is None else f"{text[: extra.end()]}{HIDDEN}"


class SecretScrubber:
    r"""Hides secrets in the messages of a peer that received them.

    A secret is found as it is, percent-encoded, in JSON, in Python's and HTML's escapes, in hexadecimal, and in
    base64 at any alignment. Pieces of eight or more characters of the secret itself are found as well, because peers
    cut their messages. Escapes of single characters (percent, ``\u``, ``\x``, octal, ``&#``) are decoded
    first where that shows a secret. Not found: a secret that the peer encrypts, reverses or encodes in another way.

    Args:
        secrets: Texts to hide. Empty ones are ignored.
        complete: Texts hidden only as a whole, such as the SASL PLAIN token, which begins with the user name.
    """

    __slots__ = ("_forms", "_pieces", "_short")

    def __init__(self, secrets: Iterable[str], *, complete: Iterable[str] = ()) -> None:
        texts = {text for text in secrets if text}
        decoded = {_ESCAPE.sub(_unescaped, text) for text in texts}
        texts |= {text for text in decoded if len(text) >= _SHORTEST}
        self._short = tuple(text for text in texts if len(text) < _SHORTEST)
        long = texts - set(self._short)
        forms = {form for text in (*long, *complete) for form in _forms(text)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._pieces = frozenset(
            text[at : at + PIECE] for text in long for at in range(len(text) - PIECE + 1)
        )

    def __repr__(self) -> str:
        return "Scrubber(...)"

    def __call__(self, text: str) -> str:
        """Return the text without secrets.

        A secret shorter than four characters would blank out ordinary words, so the whole text is hidden if one
        occurs, and so it is if escapes are nested too deep to be decoded.
        """
        message = self._without_secrets(text)
        plain = message
        for _ in range(_MAX_NESTED):
            escaped, plain = plain, _ESCAPE.sub(_unescaped, plain)
            if plain == escaped:
                return message
            if (without_secrets := self._without_secrets(plain)) != plain:
                message = plain = without_secrets
        return SCRUBBED

    def _without_secrets(self, text: str) -> str:
        if any(short in text for short in self._short):
            return SCRUBBED
        for form in self._forms:
            if form in text:
                text = text.replace(form, SCRUBBED)
        return self._without_pieces(text) if self._pieces else text

    def _without_pieces(self, text: str) -> str:
        parts: list[str] = []
        at = start = 0
        while at <= len(text) - PIECE:
            if text[at : at + PIECE] not in self._pieces:
                at += 1
                continue
            parts += [text[start:at], SCRUBBED]
            while at <= len(text) - PIECE and text[at : at + PIECE] in self._pieces:
                at += 1
            at = start = at + PIECE - 1
        parts.append(text[start:])
        return "".join(parts)


class _KnownSecrets:
    """The most recently remembered secrets of this process, and a scrubber for them."""

    __slots__ = ("_scrub", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._scrub: SecretScrubber | None = None

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            if len(text) < PIECE:
                continue
            if text not in self._texts:
                self._scrub = None
            _ = self._texts.pop(text, None)
            self._texts[text] = None
        while len(self._texts) > REMEMBERED:
            _ = self._texts.pop(next(iter(self._texts)), None)

    def hidden_in(self, text: str) -> str:
        if self._scrub is None:
            self._scrub = SecretScrubber((), complete=tuple(self._texts))
        return self._scrub(text)


REMEMBERED: Final = 256
"""Maximum number of secrets that a process remembers for its logs; the oldest are dropped first."""

_KNOWN: Final = _KnownSecrets()


def remember(*texts: str) -> None:
    """Remember secrets that logs and tracebacks of this process have to hide, whichever library quotes them.

    Texts below eight characters are not remembered: they would blank out ordinary words of every log line.
    """
    _KNOWN.add(texts)


def redact_known(text: str) -> str:
    """Remove remembered secrets and credentials of URLs from a log line or a traceback."""
    text = _KNOWN.hidden_in(text)
    if "://" not in text:
        return text
    return _WORD.sub(
        lambda word: _redacted_in_sentence(word[0]) if "://" in word[0] else word[0], text
    )


def _forms(secret: str) -> Iterator[str]:
    """Yield the encodings in which software repeats a text."""
    yield secret
    for safe in ("", "/"):
        yield quote(secret, safe=safe, errors="replace")
        yield quote_plus(secret, safe=safe, errors="replace")
    for ascii_only in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
    yield repr(secret)[1:-1]
    yield secret.translate(_HTML)
    content = secret.encode("utf-8", "replace")
    yield content.hex()
    yield content.hex().upper()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(content).decode("ascii").rstrip("=")
        # Inside a longer text the secret begins at one of three positions of a group of four letters. The letters at
        # both ends also depend on the neighbours and are omitted.
        for offset, unstable in ((0, 0), (1, 2), (2, 3)):
            letters = encode(bytes(offset) + content).decode("ascii").rstrip("=")
            stable = letters[unstable : (offset + len(content)) * 8 // 6]
            if len(stable) >= PIECE:
                yield stable


# Values are Structs; which of them are quiet: docs/adr/msgspec-structs.md.
class QuietRepr:
    """The ``repr`` of a value is the name of its type alone: a secret must not reach a log, and a large value would flood it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"
