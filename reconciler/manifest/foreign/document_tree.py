"""Documents of foreign tools, YAML or JSON, with access by field; wrong types are errors with their place."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest.foreign import json_nodes
from reconciler.manifest.foreign.collector import Files, ImportedLimit
from reconciler.manifest.syntax import scalars, yaml_parser
from reconciler.manifest.syntax.nodes import MappingNode, Node, ScalarNode, SequenceNode

_INTEGER: Final = re.compile(r"0|[1-9][0-9]*")
HINT: Final = (
    "other tools' YAML is read as strictly as manifests; expand what is not plain YAML first"
)


class DocumentTree(Struct, frozen=True, kw_only=True, gc=False):
    """One value of a document with its place. Methods raise ``ManifestErrors`` if it does not have the type that they need."""

    path: str
    node: Node

    @property
    def line(self) -> int:
        """Its line, from 1."""
        return self.node.line

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self.node, MappingNode)

    @property
    def is_null(self) -> bool:
        """Whether it is a plain null."""
        return (
            isinstance(self.node, ScalarNode)
            and self.node.plain
            and scalars.meaning(self.node.text) is None
        )

    def wrong(self, message: str) -> ManifestErrors:
        """Return an error about this value."""
        return ManifestErrors([Problem(self.path, self.line, self.node.column, message)])

    def get(self, field: str) -> "DocumentTree | None":
        """Return a field; ``None`` if it is absent or null."""
        if not isinstance(self.node, MappingNode):
            raise self.wrong("expected a mapping")
        entry = self.node.entries.get(field)
        child = None if entry is None else DocumentTree(path=self.path, node=entry.value)
        return None if child is None or child.is_null else child

    def need(self, field: str) -> "DocumentTree":
        """Return a required field."""
        child = self.get(field)
        if child is None:
            raise self.wrong(f"{field} is missing")
        return child

    def find(self, *fields: str) -> "DocumentTree | None":
        """Return a nested field; ``None`` as soon as one is absent or null."""
        node_tree: DocumentTree | None = self
        for field in fields:
            node_tree = node_tree.get(field) if node_tree is not None else None
        return node_tree

    def fields(self) -> Iterator[tuple[str, "DocumentTree"]]:
        """Iterate over every field, nulls included."""
        if not isinstance(self.node, MappingNode):
            raise self.wrong("expected a mapping")
        for name, entry in self.node.entries.items():
            yield name, DocumentTree(path=self.path, node=entry.value)

    def items(self) -> Iterator["DocumentTree"]:
        """Iterate over every item."""
        if not isinstance(self.node, SequenceNode):
            raise self.wrong("expected a list")
        for node in self.node.nodes:
            yield DocumentTree(path=self.path, node=node)

    def scalar_text(self) -> str:
        """Return a scalar as it is written, of any type."""
        if not isinstance(self.node, ScalarNode):
            raise self.wrong("expected a scalar")
        return self.node.text

    def text(self) -> str:
        """Return a string. A plain whole number becomes its digits, as in all these tools."""
        text = self.scalar_text()
        assert isinstance(self.node, ScalarNode)  # noqa: S101 - scalar_text() has checked it
        if self.node.plain and not scalars.is_text(text) and not _INTEGER.fullmatch(text):
            raise self.wrong(f"{text!r} is not a string in every YAML parser; quote it")
        return text

    def text_field(self, field: str) -> str | None:
        """Return a field that is a string; ``None`` if it is absent or null."""
        child = self.get(field)
        return None if child is None else child.text()


def all_documents(files: Files) -> Iterator[DocumentTree]:
    """Yield the documents of every file; see :func:`documents`."""
    for path, text in files:
        yield from documents(path, text)


def documents(path: str, text: str) -> list[DocumentTree]:
    """Return the documents of a YAML file, or the one of a JSON file.

    Raises:
        ManifestErrors: The text is invalid; contains all problems.
    """
    if json_nodes.looks_like_json(text):
        return [DocumentTree(path=path, node=json_nodes.read(text, path))]
    problems: list[Problem] = []
    budget = yaml_parser.NodeBudget(total=yaml_parser.MAX_FILE_NODES)
    trees = [
        DocumentTree(path=path, node=node)
        for piece in yaml_parser.pieces(text)
        if not budget.is_spent and len(problems) <= yaml_parser.MAX_PROBLEMS
        for node in yaml_parser.read(piece, path, problems, budget)
    ]
    if problems:
        raise ManifestErrors(problems, hint=HINT)
    return trees


def limits(
    tree: DocumentTree | None, keys: Mapping[str, str] | None = None, *, live: bool = False
) -> list[ImportedLimit]:
    """Return the limits in a mapping, without nulls.

    Args:
        tree: The mapping; ``None`` = there is none.
        keys: The limits that the tool supports, its name to Kafka's; ``None`` = any, with Kafka's names.
        live: Whether the numbers are printed float64s.
    """
    return [
        ImportedLimit(
            key=field if keys is None else keys.get(field, field),
            text=value.scalar_text(),
            line=value.line,
            live=live,
            is_known=keys is None or field in keys,
        )
        for field, value in (tree.fields() if tree is not None else ())
        if not value.is_null
    ]


def only_cluster(places: Mapping[str, DocumentTree], cluster: str | None, subject: str) -> None:
    """Refuse to mix the quotas of several clusters, and a cluster that no resource has.

    Args:
        places: Cluster (with the tool's name) to a resource of it.
        subject: The tool's term for such a cluster.

    Raises:
        ManifestErrors: Several and none chosen, or the chosen one is not among them.
    """
    first = next(iter(places.values()), None)
    path, line = ("", 0) if first is None else (first.path, first.line)
    names = ", ".join(sorted(places))
    if cluster is None and len(places) > 1:
        message = f"the quotas are for several clusters ({subject}): {names}"
        hint = "choose one with --source-cluster"
        raise ManifestErrors([Problem(path, line, 0, message)], hint=hint)
    if cluster is not None and cluster not in places:
        message = f"there is no {subject} {cluster!r}; there is {names or 'none'}"
        raise ManifestErrors([Problem(path, line, 0, message)])
