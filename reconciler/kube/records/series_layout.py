"""The layout of a series of ConfigMaps: number and names of its parts, and which layout is valid after a crash."""

import hashlib
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from msgspec import Struct

from reconciler.errors import InventoryError
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import record_key


class SeriesLayout(Struct, frozen=True, kw_only=True, order=True):
    """One distribution of a series over parts.

    Raises:
        ValueError: There is no part, or the serial number is negative.
    """

    serial: int = 0  # increases with every change of the number of parts
    parts: int = 1  # number of parts

    def __post_init__(self) -> None:
        if self.serial < 0 or self.parts < 1:
            raise ValueError("a layout has at least one part and a serial number from 0")


ONE: Final = SeriesLayout()
"""The first layout of every series."""

_NAME: Final = re.compile(r"-(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,3})of([1-9][0-9]{0,3})")


def name_of_part(prefix: str, layout: SeriesLayout, number: int) -> str:
    """Return ``PREFIX-SERIAL-NUMBERofPARTS``."""
    return f"{prefix}-{layout.serial}-{number}of{layout.parts}"


def part_of(subject: Entity, parts: int) -> int:
    """Return the number of the part of an entity; must never change."""
    return _hash(subject) % parts


@lru_cache(maxsize=65_536)
def _hash(subject: Entity) -> int:
    return int.from_bytes(hashlib.sha256(record_key(subject)).digest()[:8], "big")


def current(prefix: str, names: Collection[str]) -> tuple[SeriesLayout, tuple[str, ...]]:
    """Return the newest complete layout and the names of its parts.

    No names at all give the first layout without parts: there are no records yet, or they are lost.

    Raises:
        InventoryError: There are parts, but no layout is complete.
    """
    layouts: set[SeriesLayout] = set()
    for name in names:
        match = _NAME.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if match is None:
            raise InventoryError(
                f"ConfigMap {name} has the labels of records, but another name",
                hint="remove the labels, or delete it",
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
            hint="restore them from a backup; incomplete records are not used",
        )
    return ONE, ()
