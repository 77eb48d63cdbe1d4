"""Documents of foreign tools, YAML or JSON, walked by field; what has another shape is an error with its place."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest import scalars, yaml_files
from reconciler.manifest.foreign import json_nodes
from reconciler.manifest.foreign.gathering import Given
from reconciler.manifest.nodes import Block, Items, Node, Scalar

_INTEGER: Final = re.compile(r"0|[1-9][0-9]*")
HINT: Final = (
    "other tools' YAML is read as strictly as manifests; expand what is not plain YAML first"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One value of a document, which knows where it stands.

    Attributes:
        path: The file.
        node: The value.
    """

    path: str
    node: Node

    @property
    def line(self) -> int:
        """Its line, from 1."""
        return self.node.line

    @property
    def is_mapping(self) -> bool:
        """Whether it has fields."""
        return isinstance(self.node, Block)

    @property
    def is_list(self) -> bool:
        """Whether it has items."""
        return isinstance(self.node, Items)

    @property
    def is_null(self) -> bool:
        """Whether it is a plain null."""
        return isinstance(self.node, Scalar) and self.node.plain and scalars.meaning(self.node.text) is None  # fmt: skip

    def wrong(self, message: str) -> ManifestErrors:
        """An error about this value."""
        return ManifestErrors([Problem(self.path, self.line, self.node.column, message)])

    def get(self, field: str) -> "Tree | None":
        """A field; ``None`` where it is absent or null.

        Raises:
            ManifestErrors: This is no mapping.
        """
        if not isinstance(self.node, Block):
            raise self.wrong("a mapping belongs here")
        entry = self.node.entries.get(field)
        found = None if entry is None else Tree(path=self.path, node=entry.value)
        return None if found is None or found.is_null else found

    def need(self, field: str) -> "Tree":
        """A field that must be there.

        Raises:
            ManifestErrors: It is not, or this is no mapping.
        """
        found = self.get(field)
        if found is None:
            raise self.wrong(f"{field} is missing")
        return found

    def dig(self, *fields: str) -> "Tree | None":
        """A field of a field; ``None`` as soon as one is absent or null.

        Raises:
            ManifestErrors: One on the way is no mapping.
        """
        found: Tree | None = self
        for field in fields:
            found = found.get(field) if found is not None else None
        return found

    def fields(self) -> Iterator[tuple[str, "Tree"]]:
        """Every field, nulls included.

        Raises:
            ManifestErrors: This is no mapping.
        """
        if not isinstance(self.node, Block):
            raise self.wrong("a mapping belongs here")
        for name, entry in self.node.entries.items():
            yield name, Tree(path=self.path, node=entry.value)

    def items(self) -> Iterator["Tree"]:
        """Every item.

        Raises:
            ManifestErrors: This is no list.
        """
        if not isinstance(self.node, Items):
            raise self.wrong("a list belongs here")
        for node in self.node.nodes:
            yield Tree(path=self.path, node=node)

    def spelled(self) -> str:
        """A scalar as it is written, whatever its type.

        Raises:
            ManifestErrors: This is no scalar.
        """
        if not isinstance(self.node, Scalar):
            raise self.wrong("a single value belongs here")
        return self.node.text

    def text(self) -> str:
        """A string. A plain whole number is its digits, as every tool here takes it.

        Raises:
            ManifestErrors: No scalar, or one that readers of YAML take for different values.
        """
        text = self.spelled()
        assert isinstance(self.node, Scalar)  # noqa: S101 - spelled() has seen to it
        if self.node.plain and not scalars.is_text(text) and not _INTEGER.fullmatch(text):
            raise self.wrong(f"{text!r} is not a string for every reader of YAML; quote it")
        return text

    def named(self, field: str) -> str | None:
        """A field that is a string; ``None`` where it is absent or null.

        Raises:
            ManifestErrors: It is something else.
        """
        found = self.get(field)
        return None if found is None else found.text()


def documents(path: str, text: str) -> list[Tree]:
    """The documents of a YAML file, or the one of a JSON file.

    Raises:
        ManifestErrors: Everything that is wrong with the text itself.
    """
    if json_nodes.looks_like_json(text):
        return [Tree(path=path, node=json_nodes.read(text, path))]
    problems: list[Problem] = []
    budget = yaml_files.NodeBudget(total=yaml_files.MAX_FILE_NODES)
    found = [
        Tree(path=path, node=node)
        for piece in yaml_files.pieces(text)
        if not budget.is_spent
        for node in yaml_files.read(piece, path, problems, budget)
    ]
    if problems:
        raise ManifestErrors(problems, hint=HINT)
    return found


def limits(
    tree: Tree | None, keys: Mapping[str, str] | None = None, *, live: bool = False
) -> list[Given]:
    """The limits in a mapping; a null is none.

    Args:
        tree: The mapping; ``None`` = there is none.
        keys: The limits that the tool has, its name to Kafka's; ``None`` = any, under Kafka's names.
        live: Whether the numbers are printed float64s.

    Raises:
        ManifestErrors: This is no mapping, or a value is no scalar.
    """
    return [
        given(field, one, keys, live=live)
        for field, one in (tree.fields() if tree is not None else ())
        if not one.is_null
    ]


def given(
    field: str, one: Tree, keys: Mapping[str, str] | None = None, *, live: bool = False
) -> Given:
    """One limit; as :func:`limits`.

    Raises:
        ManifestErrors: The value is no scalar.
    """
    known = keys is None or field in keys
    key = field if keys is None else keys.get(field, field)
    return Given(key=key, text=one.spelled(), line=one.line, live=live, known=known)


def only_cluster(
    found: Mapping[str, str], chosen: str | None, what: str, *, must_choose: bool = False
) -> None:
    """Refuse to mix what a tool keeps for several clusters.

    Args:
        found: Cluster (as the tool calls it) to a place where it stands.
        chosen: The one that was asked for.
        what: What such a cluster is to the tool.
        must_choose: Whether even a single one has to be named, because the tool wants it named.

    Raises:
        ManifestErrors: Several and none chosen, or the chosen one is not among them.
    """
    names = ", ".join(sorted(found))
    if chosen is None and (must_choose or len(found) > 1):
        message = f"these are for certain clusters ({what}): {names}"
        raise ManifestErrors([_at(found, message)], hint="choose one with --source-cluster")
    if chosen is not None and chosen not in found:
        message = f"there is no {what} {chosen!r}; there is {names or 'none'}"
        raise ManifestErrors([_at(found, message)])


def _at(found: Mapping[str, str], message: str) -> Problem:
    path, _, line = next(iter(found.values()), ":0").rpartition(":")
    return Problem(path, int(line), 0, message)
