r"""Reading and writing what ``kafka-client-quotas`` takes and prints: comma lists with escapes, Kafka's encoding.

KIP-546 leaves quoting open. Decided: in ``--names``, ``--defaults``, ``--add`` and ``--delete`` a backslash
makes the next comma or backslash part of the text (``\,`` and ``\\``; nothing else may be escaped), and the
first ``=`` of a pair ends its type or key, so a name may hold ``=``. Names come in raw and go out with the
percent-encoding of org.apache.kafka.common.utils.Sanitizer, where the default is ``<default>`` and a user
of that very name is ``%3Cdefault%3E``.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Final

from reconciler.errors import UsageError
from reconciler.quota.entity_forms import sanitized
from reconciler.render import units


def split(text: str, *, option: str) -> list[str]:
    r"""The items of a comma list, with ``\,`` and ``\\`` resolved.

    Raises:
        UsageError: An item is empty, or a backslash stands before something else.
    """
    items, current, characters = list[str](), list[str](), iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following not in {",", "\\"}:
                raise UsageError(
                    f"{option}: a backslash must stand before a comma or a backslash, not before "
                    f"{following or 'the end'!r}",
                    hint="write a backslash of a name twice, and a comma of a name as \\,",
                )
            current.append(following)
        elif character == ",":
            items.append("".join(current))
            current = []
        else:
            current.append(character)
    items.append("".join(current))
    if "" in items:
        raise UsageError(f"{option}: an item of the list is empty")
    return items


def pairs(text: str, *, option: str) -> dict[str, str]:
    """``type=name`` or ``key=value`` items; the value may be empty and may hold ``=``.

    Raises:
        UsageError: An item has no ``=`` or nothing before it, or a left side is given twice.
    """
    values_by_name: dict[str, str] = {}
    for item in split(text, option=option):
        name, equals, right = item.partition("=")
        if not equals or not name:
            raise UsageError(f"{option}: {item!r} is not of the form {_FORMS[option]}")
        _once(values_by_name, name, option)
        values_by_name[name] = _text(right, option)
    return values_by_name


def parse_names(text: str, *, option: str) -> tuple[str, ...]:
    """Items without a value.

    Raises:
        UsageError: An item is given twice.
    """
    values_by_name: dict[str, str] = {}
    for item in split(text, option=option):
        _once(values_by_name, item, option)
        values_by_name[item] = ""
    return tuple(values_by_name)


def number(text: str, *, key: str) -> float:
    """A quota value as the float64 that is sent. What the broker thinks of it, it says itself.

    Raises:
        UsageError: It is no finite decimal number.
    """
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(
            f"--add: {key}={text!r} is no decimal number",
            hint="byte rates are plain bytes per second, such as 10485760; there are no suffixes here",
        )
    return value


def value_lines(values: Iterable[tuple[str, float]]) -> Iterator[str]:
    """``key=value`` lines, sorted by key."""
    return (f"{sanitized(key)}={units.number(value)}" for key, value in sorted(values))


_FORMS: Final = {"--names": "type=name", "--add": "key=value"}


def _once(seen_items: dict[str, str], item: str, option: str) -> None:
    if item in seen_items:
        raise UsageError(f"{option}: {item!r} is given twice")


def _text(name: str, option: str) -> str:
    try:
        _ = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{option}: {name!r} is not UTF-8 text, which Kafka's names are"
        ) from error
    return name
