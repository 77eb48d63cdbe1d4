"""Finds the project file: the given one, or ``kquota.yaml`` here or in a parent folder within the git work tree.

The search ends at the root of the work tree, and only enters folders of the user who runs the command, as git does
(safe.directory): a file above the work tree, or of another user, is never used. Outside of a work tree only the
current folder is searched.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.manifest.files import MAX_BYTES, FileTexts, may_hold_matches, read_blobs
from reconciler.manifest.project.file import FILE_NAME

if TYPE_CHECKING:
    from reconciler.app.requests import TargetRequest
    from reconciler.git.repository import CommitTree


def project_path(where: "TargetRequest", tree: "CommitTree | None" = None) -> Path:
    """Return the project file of a command, relative to the current folder if it was searched; it may not exist.

    Args:
        tree: The trusted revision: then a file counts if the revision contains it.
    """
    if where.project is not None:
        return where.project
    candidates = search_path(Path.cwd())
    if tree is None:
        present = (path for path in candidates if os.path.lexists(path))
    else:
        present = (path for path in candidates if name_in(tree, path) in tree.entries)
    return next(present, candidates[0])


def search_path(folder: Path) -> Sequence[Path]:
    """Return the possible places of a project file, the nearest first, relative to the folder.

    Args:
        folder: Current folder, absolute.
    """
    return tuple(Path(os.path.relpath(above / FILE_NAME, folder)) for above in _folders(folder))


def name_in(tree: "CommitTree", path: Path) -> str:
    """Return the name of a path in the tree of a revision."""
    return Path(os.path.relpath(path.absolute(), tree.top)).as_posix()


def read_tree(
    tree: "CommitTree",
    folder: str,
    patterns: Sequence[str],
    *,
    project_file: str,
) -> FileTexts:
    """Return the manifests that patterns match in a revision, without the project file.

    Args:
        folder: Base of patterns and names, as a path in the tree; ``.`` = the top.

    Raises:
        GitError: The revision has a submodule or a link to a folder where patterns match: on a disk they are folders with
            documents, and a document that was not read must never look like a deleted one.
    """
    base = "" if folder == "." else folder + "/"
    names = [name.removeprefix(base) for name in tree.under((base,)) if name.startswith(base)]
    _ = tree.sizes(
        base + name
        for name in names
        if not tree.is_plain_file(base + name) and may_hold_matches(name, patterns)
    )
    return read_blobs(
        patterns,
        names,
        lambda names: {
            name.removeprefix(base): size
            for name, size in tree.sizes(base + name for name in names).items()
        },
        lambda names: {
            name.removeprefix(base): content
            for name, content in tree.read(
                (base + name for name in names), max_bytes=MAX_BYTES
            ).items()
        },
        exclude=(project_file,),
    )


def _folders(folder: Path) -> Iterator[Path]:
    yield folder
    above = (folder, *folder.parents)
    top = next((number for number, at in enumerate(above) if os.path.lexists(at / ".git")), 0)
    for at in above[1 : top + 1]:
        if not _is_own(at):
            return
        yield at


def _is_own(folder: Path) -> bool:
    """Whether a folder and the project file in it belong to the current user."""
    user = os.geteuid()
    paths = [folder, *(path for path in (folder / FILE_NAME,) if os.path.lexists(path))]
    return all(path.lstat().st_uid == user for path in paths)


def located_properties(
    properties: Mapping[str, str], place: Callable[[str], str]
) -> dict[str, str]:
    """Return client properties of a project whose files start from the folder of the project file, as its other paths do.

    Args:
        place: Returns the place of a path in the project file.
    """
    return {
        name: place(value) if name.endswith(".location") and not value.startswith("${") else value
        for name, value in properties.items()
    }
