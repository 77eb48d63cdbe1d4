"""A YAML document as it was written: scalars, mappings and sequences, each with its line and column.

Named tuples instead of dataclasses: a file of 10,000 documents makes 300,000 of them, and a frozen
dataclass costs three times as much to build. Lines and columns count from 1.
"""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from reconciler.manifest.scalars import Ambiguous, meaning

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | Ambiguous | None"
"""A document without places. Ambiguous plain scalars stay marked, so that no schema accepts them."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the root of a document."""


class Scalar(NamedTuple):
    """One scalar.

    Attributes:
        text: Its content, after YAML's escapes and folding.
        plain: Written without quotes and not as a block, so that its type is the reader's guess.
    """

    text: str
    plain: bool
    line: int
    column: int


class Entry(NamedTuple):
    """One key of a mapping with its value."""

    key: Scalar
    value: "Node"


class Block(NamedTuple):
    """A mapping, in the order of the file; no key stands twice."""

    entries: dict[str, Entry]
    line: int
    column: int


class Items(NamedTuple):
    """A sequence."""

    nodes: tuple["Node", ...]
    line: int
    column: int


Node: TypeAlias = Scalar | Block | Items


def to_json(node: Node) -> Json:
    """The values alone."""
    match node:
        case Scalar(text, plain):
            return meaning(text) if plain else text
        case Block(entries):
            return {key: to_json(entry.value) for key, entry in entries.items()}
        case Items(nodes):
            return [to_json(item) for item in nodes]


def from_json(value: object) -> Node:
    """A tree for something that never was YAML, such as a custom resource; every place is 0.

    Raises:
        TypeError: A value has no JSON form.
    """
    match value:
        case dict():
            return Block(
                {str(k): Entry(_quoted(str(k)), from_json(v)) for k, v in value.items()}, 0, 0
            )
        case list() | tuple():
            return Items(tuple(from_json(item) for item in value), 0, 0)
        case str():
            return _quoted(value)
        case None | bool() | int() | float():
            return Scalar(_spelled(value), plain=True, line=0, column=0)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


def _quoted(text: str) -> Scalar:
    return Scalar(text, plain=False, line=0, column=0)


def _spelled(value: float | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _ if not math.isfinite(value):
            return ".nan"  # JSON has none of these; as YAML spells them, no field accepts them
        case _ if "e" in repr(value):
            return f"{Decimal(repr(value)):f}" if abs(value) < 1 else f"{Decimal(value):.1f}"
        case _:
            return repr(value)


def find(root: Node, path: Path) -> Node | None:
    """The node at a path, or ``None``."""
    node: Node = root
    for step in path:
        match node, step:
            case Block(entries), str() if step in entries:
                node = entries[step].value
            case Items(nodes), int() if step < len(nodes):
                node = nodes[step]
            case _:
                return None
    return node


def place(root: Node, path: Path) -> tuple[int, int]:
    """Line and column of the value at a path, or of the closest thing above it that was written."""
    for length in range(len(path), 0, -1):
        found = find(root, path[:length])
        if found is not None:
            return found.line, found.column
    return root.line, root.column


def key_place(root: Node, path: Path) -> tuple[int, int]:
    """Line and column of the key that ends a path; as :func:`place` where there is none."""
    parent = find(root, path[:-1]) if path else None
    if isinstance(parent, Block) and path[-1] in parent.entries:
        key = parent.entries[str(path[-1])].key
        return key.line, key.column
    return place(root, path)


def walk(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Every node with its path, parents first."""
    yield path, node
    match node:
        case Block(entries):
            for key, entry in entries.items():
                yield from walk(entry.value, (*path, key))
        case Items(nodes):
            for index, item in enumerate(nodes):
                yield from walk(item, (*path, index))
        case Scalar():
            pass
