"""Parses JSON from outside, bounded in bytes, items and depth; every fault is a ``ValueError`` with a message.

Python's own parser raises ``RecursionError`` for deep nesting, and its errors keep the whole text, which a printed
chain of exceptions would show. Callers validate the values.
"""

import json
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeAlias

Pairs: TypeAlias = list[tuple[str, Any]]

SMALL: Final = 64 * 1024
"""Bytes of a single value, line or message."""

ANSWER: Final = 1024 * 1024
"""Bytes of a server's response about one object."""

DOCUMENT: Final = 64 * 1024 * 1024
"""Bytes of a server's response about many objects."""

OWN_FILE: Final = 512 * 1024 * 1024
"""Bytes of a file that kquota wrote: records of a million pairs have 200 MB, a plan of 300,000 changes has 150 MB."""

ITEM_BYTES: Final = 4
"""Minimum average bytes of an item: ``[],`` has three and needs 64 in memory."""

MOST_DEPTH: Final = 200
"""Maximum nesting of arrays and objects. Valid input has at most ten levels."""

_EXACT: Final = 2**53
"""Up to this value float64 represents every whole number."""

_CONTAINERS: Final[frozenset[type]] = frozenset({dict, list})


class InvalidJson(ValueError):
    """A text is not accepted as JSON. The error does not contain the text."""


# Items are counted before they are allocated: docs/adr/input-bounds.md.
def parse(
    text: str | bytes,
    *,
    most_bytes: int,
    pairs: Callable[[Pairs], object] | None = None,
    checks_depth: bool = True,
    integer: Callable[[str], object] | None = None,
) -> Any:  # noqa: ANN401 - any JSON; the caller checks
    """Parse a text.

    Args:
        text: UTF-8 where it is bytes.
        most_bytes: Longest text that is taken, in bytes (in characters for a ``str``).
        pairs: Makes an object of its names and values; a ``dict`` by default.
        checks_depth: Whether a value that is nested too deep is refused here; else the caller calls :func:`is_deep`.
        integer: Makes a number of the digits of a whole one, such as :func:`quota_number`; an ``int`` by default.

    Raises:
        InvalidJson: The text is not JSON, too long, or nested too deep; or ``pairs`` raised a ``ValueError``.
    """
    if len(text) > most_bytes:
        raise InvalidJson(f"it has more than {most_bytes:,} bytes")
    if items(text) > most_bytes // ITEM_BYTES:
        raise InvalidJson(f"it has more than {most_bytes // ITEM_BYTES:,} items")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        value: object = json.loads(
            text, object_pairs_hook=pairs, parse_constant=_no_constant, parse_int=integer
        )
    except UnicodeDecodeError as error:
        raise InvalidJson(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InvalidJson(f"{error.msg}, line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise InvalidJson("it is nested too deep") from None
    except ValueError as error:
        raise InvalidJson(str(error)) from None
    if checks_depth and is_deep(value):
        raise InvalidJson(f"it is nested more than {MOST_DEPTH} levels deep")
    return value


def unique(pairs: Pairs) -> dict[str, Any]:
    """Convert pairs into a dict; for ``pairs`` of :func:`parse`.

    Raises:
        ValueError: A name occurs twice.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {duplicate!r} is given twice")
    return members


def quota_number(digits: str) -> float:
    """Return a whole number; a large one as float64, since other tools write ``1e+18`` without an exponent."""
    number = float(digits)
    return int(digits) if abs(number) <= _EXACT and int(digits) == number else number


def items(text: str | bytes) -> int:
    """Return an upper bound of the number of arrays, objects and values; characters inside strings count too."""
    if isinstance(text, bytes):
        return text.count(b",") + text.count(b"[") + text.count(b"{") + 1
    return text.count(",") + text.count("[") + text.count("{") + 1


def is_deep(value: object) -> bool:
    """Whether arrays and objects are nested more than :data:`MOST_DEPTH` levels deep."""
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    for _ in range(MOST_DEPTH + 1):
        if not level:
            return False
        # Most containers contain no other one, which is checked at C speed: a plan has 200,000 of them.
        contents = (outer.values() if type(outer) is dict else outer for outer in level)
        level = [
            inner
            for content in contents
            if not _CONTAINERS.isdisjoint(map(type, content))
            for inner in content
            if type(inner) in _CONTAINERS
        ]
    return bool(level)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
