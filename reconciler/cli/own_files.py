"""Files that kquota keeps in a project: records, audit log, outcomes, reported drift. They are never part of a commit.

Records decide what is ours, and so what may be removed. A commit that brings them would decide that for everybody who
checks it out; a link in their place would decide which file of the machine is replaced.
"""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from reconciler.errors import ConfigError


def own_path(root: Path, name: str | Path, *, what: str) -> Path:
    """The place of a file that kquota keeps.

    Args:
        root: Folder that paths of the project start from.
        name: The file or folder, as it is configured.
        what: What it holds, for the error.

    Raises:
        ConfigError: Git tracks the file, a lock beside it, or a link on the way to it.
        GitError: Git cannot say so; for example it refuses a repository of another user.
    """
    path = root / name
    named = Path(os.path.normpath(path.absolute()))
    above = [folder for folder in named.parents if os.path.lexists(folder / ".git")]
    if not above or shutil.which("git") is None:
        return path
    top = above[0]
    links = [one for one in (named, *named.parents) if one.is_relative_to(top) and one.is_symlink()]
    if not links and not named.parent.is_dir():
        return path
    from reconciler.git.repository import Repository

    tracked = Repository(top=top).tracked([_below(one, top) for one in (*links, named.parent)])
    beside = _below(named.parent / f".{named.name}.", top)
    refused = sorted(
        one
        for one in tracked
        if one in {_below(link, top) for link in links}
        or one == _below(named, top)
        or one.startswith((beside, _below(named, top) + "/"))
    )
    if refused:
        raise ConfigError(
            f"git tracks {refused[0]}, so a commit can decide what stands there; {what} are never part of a commit",
            where=str(path),
            hint=f"name it in .gitignore and run: {_removal(top, refused, _below(named, top))}; pipelines keep records with"
            " inventory: {gitRef: refs/kquota/inventory}",
        )
    return path


def _removal(top: Path, refused: Sequence[str], folder: str) -> str:
    """The command that takes all refused names out of the index, from wherever it is run; the files stay."""
    names = dict.fromkeys(folder if one.startswith(f"{folder}/") else one for one in refused)
    return shlex.join(["git", "-C", str(top), "rm", "-r", "--cached", "--", *names])


def _below(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix()
