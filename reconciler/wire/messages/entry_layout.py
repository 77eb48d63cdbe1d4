"""The types that entries of quota responses are decoded to: exact tuples of atoms, in the caller's layout.

Exact tuples of strings, floats, None and False are the only containers that CPython's cyclic collector
stops tracking; instances and tuple subclasses stay tracked and make 100,000 entries three times slower.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from reconciler.errors import DecodeError, TooManyItems
from reconciler.wire.primitives import WireReader, WireWriter

Slot: TypeAlias = str | Literal[False] | None
"""One slot of an entity: a name, None for the default, False if the type is absent."""

SlotKey: TypeAlias = tuple[Slot, ...]
"""One item per slot of the layout."""

Row: TypeAlias = tuple[float | None, ...]
"""One item per column of the layout; None is unset."""

Part: TypeAlias = tuple[str, str | None]
"""One component of an entity as on the wire: its type, and its name or None for the default."""

Value: TypeAlias = tuple[str, float]
"""One value as on the wire: its key, and the number."""

ABSENT: Final = False

ENTRY_ITEMS: Final = 1_000
"""Maximum components and values of one entry. Kafka has three types of entity and a handful of keys."""

ENTITIES_HINT: Final = (
    "if the cluster really has that many, raise receive.max.entities and give the process 1 KB of memory for each"
    " (in Kubernetes resources.limits.memory)"
)


def read_parts(reader: WireReader) -> tuple[Part, ...]:
    """Read the components of an entity."""
    return reader.structures(lambda: (reader.string(), reader.nullable_string()), least_size=3)


def write_parts(writer: WireWriter, parts: Sequence[Part]) -> None:
    """Write the components of an entity."""

    def write_part(part: Part) -> None:
        writer.string(part[0])
        writer.nullable_string(part[1])

    writer.structures(parts, write_part)


class EntryLayout(Struct, frozen=True, kw_only=True):
    """The caller's layout of entries."""

    slots: tuple[str, ...]  # entity types in the order of a `SlotKey`; at least two
    columns: tuple[str, ...]  # quota keys in the order of a `Row`; at least two

    def __post_init__(self) -> None:
        for name, items in (("slots", self.slots), ("columns", self.columns)):
            if len(items) < 2 or len(set(items)) != len(items):
                raise ValueError(f"{name} must be two or more different names, not {items}")
            if any(not 0 < len(item.encode()) < 127 for item in items):
                raise ValueError(f"{name} must have names of 1 to 126 bytes")


class EntryCollection(Struct, kw_only=True):
    """The entries decoded so far; every entity is in exactly one of ``entries`` and ``foreign``."""

    layout: EntryLayout
    # Maximum entities of the response. Verbatim items (components of foreign entities, and values whose key is no
    # column) use more memory than a row, so their number has the same limit.
    most_entities: int
    entries: dict[SlotKey, Row] = field(default_factory=dict[SlotKey, Row])
    foreign_values: dict[SlotKey, tuple[Value, ...]] = field(
        default_factory=dict[SlotKey, tuple[Value, ...]]
    )
    foreign: dict[tuple[Part, ...], tuple[Value, ...]] = field(
        default_factory=dict[tuple[Part, ...], tuple[Value, ...]]
    )
    verbatim_items: int = 0  # verbatim items so far

    def __len__(self) -> int:
        return len(self.entries) + len(self.foreign)

    def add(self, parts: Sequence[Part], values: Sequence[Value], *, offset: int) -> None:
        """Add one entry that was read at ``offset``.

        Raises:
            DecodeError: It has no component, or a type, a key or the entity itself occurs twice.
            TooManyItems: There are too many verbatim items.
        """
        names = dict(parts)
        numbers = dict(values)
        if not parts:
            raise DecodeError("an entity has no component", offset=offset)
        if len(names) != len(parts):
            raise DecodeError("an entity has the same type twice", offset=offset)
        if len(numbers) != len(values):
            raise DecodeError("an entry has the same key twice", offset=offset)
        if any(entity_type not in self.layout.slots for entity_type in names):
            self._count_verbatim(len(parts) + len(values), offset)
            self._add_foreign(tuple(sorted(parts)), tuple(sorted(values)), offset)
            return
        key: SlotKey = tuple(names.get(slot, ABSENT) for slot in self.layout.slots)
        if key in self.entries:
            raise DecodeError("the same entity occurs twice", offset=offset)
        self.entries[key] = tuple(numbers.get(column) for column in self.layout.columns)
        unknown_values = sorted(value for value in values if value[0] not in self.layout.columns)
        if unknown_values:
            self._count_verbatim(len(unknown_values), offset)
            self.foreign_values[key] = tuple(unknown_values)

    def _count_verbatim(self, count: int, offset: int) -> None:
        self.verbatim_items += count
        if self.verbatim_items > self.most_entities:
            raise TooManyItems(
                f"the answer has more than {self.most_entities} components and values of types and keys"
                " that Kafka does not have",
                offset=offset,
                hint=ENTITIES_HINT,
            )

    def _add_foreign(self, parts: tuple[Part, ...], values: tuple[Value, ...], offset: int) -> None:
        if parts in self.foreign:
            raise DecodeError("the same entity occurs twice", offset=offset)
        self.foreign[parts] = values
