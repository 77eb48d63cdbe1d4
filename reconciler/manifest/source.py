"""One document as its file writes it: with its annotations, and before grants decide what of it counts."""

from collections.abc import Iterator

from reconciler.manifest import yaml_files
from reconciler.manifest.document import ClientQuota, Declined, from_node
from reconciler.manifest.nodes import Block, Items, Node
from reconciler.quota.desired import Declaration


def written(text: str, cluster: str, one: Declaration) -> ClientQuota | None:
    """The document that a declaration comes from; ``None`` where the text does not hold it.

    Args:
        text: The file of the declaration.
        cluster: The cluster that it is for.
        one: The declaration, with its place; of what grants may alter nothing is looked at.
    """
    for piece in yaml_files.pieces(text):
        if not piece.line <= one.line <= piece.line + piece.text.count("\n"):
            continue
        for root in yaml_files.read(piece, one.path, []):
            for node in _candidates(root):
                try:
                    found = from_node(node, one.path)
                except Declined:
                    continue
                place = (found.cluster, found.declaration.document, found.declaration.line)
                if place == (cluster, one.document, one.line):
                    return found
    return None


def _candidates(root: Node) -> Iterator[Node]:
    """The document, and what it holds if it is a list."""
    yield root
    if isinstance(root, Block) and "items" in root.entries:
        items = root.entries["items"].value
        if isinstance(items, Items):
            yield from items.nodes
