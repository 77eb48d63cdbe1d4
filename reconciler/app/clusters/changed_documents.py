"""Finds the documents that a proposal changes: those that differ from where the proposal branched off.

The result decides which warnings a comment lists. It does not affect what is applied, so a shallow history is no
error: then the result is unknown.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.app.clusters.project_files import name_in
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.base.regular_files import read_regular
from reconciler.errors import GitError
from reconciler.manifest.loader import load_files
from reconciler.quota.planner.desired_state import Declaration, DesiredState

if TYPE_CHECKING:
    from reconciler.git.repository import CommitTree


def changed_documents(
    target: ClusterTarget, desired: DesiredState, *, typed_paths: bool
) -> frozenset[str] | None:
    """Return the documents that differ from the common ancestor of HEAD and the trusted revision.

    Args:
        target: The cluster; its options contain the trusted revision.
        typed_paths: Whether document paths are relative to the current folder, not to the project.

    Returns:
        The names, or ``None`` if there is no trusted revision or the histories have no known common commit.
    """
    revision = target.options.config_from
    if revision is None:
        return None
    from reconciler.git.repository import Repository

    start = Path() if typed_paths else target.root
    try:
        repository = Repository.around(target.root.absolute())
        base = repository.merge_base(revision)
        if base is None:
            return None
        tree = repository.tree(base)
        declared = [claim for claims in desired.claims.values() for claim in claims]
        names = {path: name_in(tree, start / path) for path in {claim.path for claim in declared}}
        return frozenset(_changed(target, declared, names, start, tree))
    except GitError:
        return None


def _changed(
    target: ClusterTarget,
    declared: Iterable[Declaration],
    names: dict[str, str],
    start: Path,
    tree: "CommitTree",
) -> Iterable[str]:
    before = tree.read(name for name in names.values() if name in tree.entries)
    differing = {
        path: before.get(name, b"")
        for path, name in names.items()
        if before.get(name) != _content(start / path)
    }
    texts = [(path, content.decode("utf-8", "replace")) for path, content in differing.items()]
    loaded = load_files(texts, clusters=None if target.project is None else target.project.labels)
    base_facts = {_facts(claim) for claim in loaded.of(target.name)}
    for claim in declared:
        if claim.path in differing and _facts(claim) not in base_facts:
            yield claim.document


def _content(path: Path) -> bytes | None:
    try:
        return read_regular(path, max_bytes=1 << 30)
    except (OSError, ValueError):
        return None


def _facts(claim: Declaration) -> tuple[object, ...]:
    """Return the content of a document, independent of its place."""
    return (
        claim.document,
        claim.entity,
        claim.limits,
        claim.deletion_policy,
        claim.suspended,
        claim.labels,
        claim.accepted,
    )
