"""A YAML document as a tree: scalars, mappings and sequences, each with its line and column.

Lines and columns count from 1.
"""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

from reconciler.manifest.syntax.scalars import AmbiguousScalar, meaning

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | AmbiguousScalar | None"
"""A document without places. Ambiguous plain scalars stay marked, so that no schema accepts them."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the root of a document."""


class ScalarNode(Struct, frozen=True, gc=False):
    """One scalar."""

    text: str  # its content, after YAML's escapes and folding
    # Whether it has neither quotes nor block style, so that its type depends on the reader.
    plain: bool
    line: int
    column: int


class MappingEntry(Struct, frozen=True, gc=False):
    """One key of a mapping with its value."""

    key: ScalarNode
    value: "Node"


class MappingNode(Struct, frozen=True, gc=False):
    """A mapping, in the order of the file; keys are unique."""

    entries: dict[str, MappingEntry]
    line: int
    column: int


class SequenceNode(Struct, frozen=True, gc=False):
    """A sequence."""

    nodes: tuple["Node", ...]
    line: int
    column: int


Node: TypeAlias = ScalarNode | MappingNode | SequenceNode


def to_json(node: Node) -> Json:
    """Return the values without places."""
    match node:
        case ScalarNode(text, plain):
            return meaning(text) if plain else text
        case MappingNode(entries):
            return {key: to_json(entry.value) for key, entry in entries.items()}
        case SequenceNode(nodes):
            return [to_json(item) for item in nodes]


def from_json(value: object) -> Node:
    """Return a tree for a value without YAML text, such as a custom resource; every place is 0.

    Raises:
        TypeError: A value has no JSON form.
    """
    match value:
        case dict():
            return MappingNode(
                {
                    str(k): MappingEntry(_quoted_scalar(str(k)), from_json(v))
                    for k, v in value.items()
                },
                0,
                0,
            )
        case list() | tuple():
            return SequenceNode(tuple(from_json(item) for item in value), 0, 0)
        case str():
            return _quoted_scalar(value)
        case None | bool() | int() | float():
            return ScalarNode(_number_text(value), plain=True, line=0, column=0)
        case _:
            raise TypeError(f"{type(value).__name__} has no JSON form")


def _quoted_scalar(text: str) -> ScalarNode:
    return ScalarNode(text, plain=False, line=0, column=0)


def _number_text(value: float | None) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _ if not math.isfinite(value):
            return ".nan"  # JSON has none of these; in YAML's spelling, no field accepts them
        case _ if "e" in repr(value):
            return f"{Decimal(repr(value)):f}" if abs(value) < 1 else f"{Decimal(value):.1f}"
        case _:
            return repr(value)


def find(root: Node, path: Path) -> Node | None:
    """Return the node at a path, or ``None``."""
    node: Node = root
    for step in path:
        match node, step:
            case MappingNode(entries), str() if step in entries:
                node = entries[step].value
            case SequenceNode(nodes), int() if step < len(nodes):
                node = nodes[step]
            case _:
                return None
    return node


def place(root: Node, path: Path) -> tuple[int, int]:
    """Return line and column of the value at a path, or of its nearest ancestor that exists."""
    for length in range(len(path), 0, -1):
        parent = find(root, path[:length])
        if parent is not None:
            return parent.line, parent.column
    return root.line, root.column


def key_place(root: Node, path: Path) -> tuple[int, int]:
    """Return line and column of the last key of a path; without one as :func:`place`."""
    parent = find(root, path[:-1]) if path else None
    if isinstance(parent, MappingNode) and path[-1] in parent.entries:
        key = parent.entries[str(path[-1])].key
        return key.line, key.column
    return place(root, path)


def walk(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Iterate over every node with its path, parents first."""
    yield path, node
    match node:
        case MappingNode(entries):
            for key, entry in entries.items():
                yield from walk(entry.value, (*path, key))
        case SequenceNode(nodes):
            for index, item in enumerate(nodes):
                yield from walk(item, (*path, index))
        case ScalarNode():
            pass
