"""The meaning of plain YAML scalars, and which ones YAML readers read differently. Text rules without a parser.

Four readers matter: YAML 1.1 as in PyYAML and SnakeYAML, the full YAML 1.1 type repository, the YAML 1.2
core schema, and kubectl's (sigs.k8s.io/yaml on go-yaml v2, which drops underscores before it tries a number
and lets Go guess the base). A plain scalar is a string here only if all four agree; it is a number, a boolean
or null only in the one spelling on which all four agree. Everything else is :class:`AmbiguousScalar`.
"""

import re
from typing import Final, TypeAlias

from msgspec import Struct

WORDS: Final = frozenset(
    spelling
    for word in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    for spelling in (word, word.capitalize(), word.upper())
) | {"", "~", "=", "<<"}
"""Plain scalars that some reader reads as a boolean, null, a merge or a default key."""

# Tried after underscores are dropped, as in go-yaml; intentionally wider than any single reader.
_NUMBER: Final = re.compile(
    r"""[-+]?(?: 0[xX][0-9a-fA-F]*            # 0x1F
             | 0[oObB][0-9]*                  # 0o17, 0b101
             | [0-9]+ (?:\.[0-9]*)? (?:[eE][-+]?[0-9]+)?   # 123, 017, 1., 1.5, 1e7
             | \.[0-9]+ (?:[eE][-+]?[0-9]+)?  # .5
             | [0-9]+ (?::[0-9]{1,2})+ (?:\.[0-9]*)?       # 12:30, in base 60
             | \.(?:inf|Inf|INF)
        )
      | \.(?:nan|NaN|NAN)
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} (?:[Tt\ \t].*)?     # 2024-01-01
    """,
    re.VERBOSE | re.DOTALL,
)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_MAY_BE_NUMBER: Final = frozenset("0123456789+-._")

MAX_DIGITS: Final = 400
"""More digits than any float64 has before its point; longer numbers are not converted."""


class AmbiguousScalar(Struct, frozen=True, gc=False):
    """A plain scalar that readers read differently; no field accepts it."""

    text: str


Plain: TypeAlias = str | int | float | bool | AmbiguousScalar | None
"""The possible values of a plain scalar."""


def is_text(plain: str) -> bool:
    """Whether every reader reads this plain scalar as the same string."""
    if plain in WORDS:
        return False
    return plain[0] not in _MAY_BE_NUMBER or _NUMBER.fullmatch(plain.replace("_", "")) is None


def meaning(plain: str) -> Plain:
    """Return the value on which all readers agree, or :class:`AmbiguousScalar`."""
    if len(plain) <= MAX_DIGITS and plain != "-0":
        if _INTEGER.fullmatch(plain):
            return int(plain)
        if _DECIMAL.fullmatch(plain):
            return float(plain)
    if is_text(plain):
        return plain
    if plain in _NULLS:
        return None
    return plain == "true" if plain in {"true", "false"} else AmbiguousScalar(plain)
