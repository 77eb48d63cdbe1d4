"""Fast compact JSON for many small values, in ASCII: CPython's C encoder, and msgspec for typed rows."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct


class _PythonFloat(float):
    """A number that msgspec would write in another form than Python."""

    __slots__ = ()


def exact(value: float) -> float:
    """Return a number that :func:`lines` writes as Python does: ``1e+16`` and not ``1e16``, and NaN is refused."""
    return value if 1e-4 <= value < 1e16 else _PythonFloat(value)


def lines(rows: Sequence[Struct]) -> bytes:
    """Return each row as a line of JSON without blanks, in ASCII.

    Raises:
        ValueError: A row has an :func:`exact` number that JSON cannot represent.
    """
    try:
        content = _ROWS.encode_lines(rows)
    except UnicodeEncodeError:  # half of a surrogate pair, which only Python writes
        texts = (_PYTHON(msgspec.to_builtins(row, enc_hook=float)) for row in rows)
        return "".join(f"{text}\n" for text in texts).encode("ascii")
    if content.isascii() and b"\x7f" not in content:
        return content
    return _UNUSUAL.sub(lambda match: json.dumps(match[0])[1:-1], content.decode()).encode("ascii")


def _number(value: object) -> msgspec.Raw:
    return msgspec.Raw(_PYTHON(value).encode("ascii"))


def compact(*, sort_keys: bool = False) -> Callable[[object], str]:
    """Return a function that writes a value as JSON without blanks, in ASCII.

    The function raises ``ValueError`` for NaN and infinity. ``JSONEncoder.encode`` creates its C encoder for each value,
    which costs as much as writing a short row. Here it is created once. Values must not contain cycles. Without the C
    encoder ``JSONEncoder.encode`` is used.
    """
    plain = json.JSONEncoder(separators=(",", ":"), sort_keys=sort_keys, allow_nan=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    try:
        markers = indent = None
        skip_keys = allow_nan = False
        pieces = make(  # type: ignore[misc]  # not in the stubs; not callable where it is missing
            markers,
            plain.default,
            json.encoder.encode_basestring_ascii,
            indent,
            ":",
            ",",
            sort_keys,
            skip_keys,
            allow_nan,
        )
        _ = pieces([1, "a"], 0)
    except TypeError:
        return plain.encode
    return lambda value: "".join(pieces(value, 0))


_UNUSUAL: Final = re.compile(r"[^\n -~]+")
_PYTHON: Final = compact()
_ROWS: Final = msgspec.json.Encoder(enc_hook=_number)
