"""Files that kquota stores in a project: records, audit log, outcomes, reported drift. They must not be part of a commit.

Records determine the owned limits, and so what may be removed. A commit with records would decide that for every checkout; a
link in their place would decide which file of the machine is replaced.
"""

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from reconciler.errors import ConfigError


def own_path(root: Path, name: str | Path, *, content_name: str) -> Path:
    """Return the path of a file that kquota stores.

    Args:
        content_name: Its content, for the error.

    Raises:
        ConfigError: Git tracks the file, a lock beside it, or a link on its path.
        GitError: Git failed; for example it refuses a repository of another user.
    """
    path = root / name
    absolute = Path(os.path.normpath(path.absolute()))
    above = [folder for folder in absolute.parents if os.path.lexists(folder / ".git")]
    if not above or shutil.which("git") is None:
        return path
    top = above[0]
    links = [
        link
        for link in (absolute, *absolute.parents)
        if link.is_relative_to(top) and link.is_symlink()
    ]
    if not links and not absolute.parent.is_dir():
        return path
    from reconciler.git.repository import Repository

    tracked = Repository(top=top).tracked([_below(link, top) for link in (*links, absolute.parent)])
    temporary_prefix = _below(absolute.parent / f".{absolute.name}.", top)
    tracked_paths = sorted(
        tracked_path
        for tracked_path in tracked
        if tracked_path in {_below(link, top) for link in links}
        or tracked_path == _below(absolute, top)
        or tracked_path.startswith((temporary_prefix, _below(absolute, top) + "/"))
    )
    if tracked_paths:
        raise ConfigError(
            f"git tracks {tracked_paths[0]}, so a commit could replace it; {content_name} must not be part of a commit",
            location=str(path),
            hint=f"add it to .gitignore and run: {_removal(top, tracked_paths, _below(absolute, top))}; pipelines keep records with"
            " inventory: {gitRef: refs/kquota/inventory}",
        )
    return path


def _removal(top: Path, tracked_paths: Sequence[str], folder: str) -> str:
    """Return the command that removes all refused names from the index, from any folder; the files stay."""
    names = dict.fromkeys(
        folder if tracked_path.startswith(f"{folder}/") else tracked_path
        for tracked_path in tracked_paths
    )
    return shlex.join(["git", "-C", str(top), "rm", "-r", "--cached", "--", *names])


def _below(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix()
