"""How one series of ConfigMaps is laid out: how many parts, what they are called, which layout counts after a crash."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from reconciler.errors import InventoryError
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import record_key


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SeriesLayout:
    """One way to spread a series.

    Attributes:
        serial: Rises with every change of the number of parts.
        parts: How many there are.

    Raises:
        ValueError: There is no part, or the serial number is negative.
    """

    serial: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if self.serial < 0 or self.parts < 1:
            raise ValueError("a layout has at least one part and a serial number from 0")


ONE: Final = SeriesLayout()
"""What every series begins with."""

_NAME: Final = re.compile(r"-(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,3})of([1-9][0-9]{0,3})")


def name_of_part(prefix: str, layout: SeriesLayout, number: int) -> str:
    """``PREFIX-SERIAL-NUMBERofPARTS``."""
    return f"{prefix}-{layout.serial}-{number}of{layout.parts}"


def part_of(subject: Entity, parts: int) -> int:
    """In which part an entity is filed; the same for all time."""
    return _hash(subject) % parts


@lru_cache(maxsize=65_536)
def _hash(subject: Entity) -> int:
    return int.from_bytes(hashlib.sha256(record_key(subject)).digest()[:8], "big")


def current(prefix: str, names: Collection[str]) -> tuple[SeriesLayout, tuple[str, ...]]:
    """The newest layout of which every part is there, and the names of its parts.

    Nothing at all is the first layout without a part: there are no records yet, or they are lost.

    Raises:
        InventoryError: There are parts, but none of the layouts is whole.
    """
    layouts: set[SeriesLayout] = set()
    for name in names:
        match = _NAME.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if match is None:
            raise InventoryError(
                f"ConfigMap {name} has the labels of records and not their name",
                hint="take the labels off, or delete it",
            )
        layouts.add(SeriesLayout(serial=int(match[1]), parts=int(match[3])))
    for layout in sorted(layouts, reverse=True):
        expected_names = tuple(
            name_of_part(prefix, layout, number) for number in range(layout.parts)
        )
        if all(name in names for name in expected_names):
            return layout, expected_names
    if layouts:
        raise InventoryError(
            f"some of the ConfigMaps {prefix}-* are missing",
            hint="restore them from a backup; what is left is never taken for everything",
        )
    return ONE, ()
