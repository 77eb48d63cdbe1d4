"""One document as its file writes it: with its annotations, and before grants decide what of it counts."""

from collections.abc import Iterator

from reconciler.manifest.document import ClientQuota, DocumentDeclined, from_node
from reconciler.manifest.syntax import yaml_parser
from reconciler.manifest.syntax.nodes import MappingNode, Node, SequenceNode
from reconciler.quota.planner.desired_state import Declaration


def find_document(text: str, cluster: str, declaration: Declaration) -> ClientQuota | None:
    """The document that a declaration comes from; ``None`` where the text does not hold it.

    Args:
        text: The file of the declaration.
        cluster: The cluster that it is for.
        declaration: The declaration, with its place; of what grants may alter nothing is looked at.
    """
    for piece in yaml_parser.pieces(text):
        if not piece.line <= declaration.line <= piece.line + piece.text.count("\n"):
            continue
        for root in yaml_parser.read(piece, declaration.path, []):
            for node in _candidates(root):
                try:
                    document = from_node(node, declaration.path)
                except DocumentDeclined:
                    continue
                place = (document.cluster, document.declaration.document, document.declaration.line)
                if place == (cluster, declaration.document, declaration.line):
                    return document
    return None


def _candidates(root: Node) -> Iterator[Node]:
    """The document, and what it holds if it is a list."""
    yield root
    if isinstance(root, MappingNode) and "items" in root.entries:
        items = root.entries["items"].value
        if isinstance(items, SequenceNode):
            yield from items.nodes
