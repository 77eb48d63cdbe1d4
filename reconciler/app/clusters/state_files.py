"""Files that kquota stores in a project: records, audit log, outcomes, reported drift. They must not be part of a commit.

Records determine the owned limits, and so what may be removed. A commit with records would decide that for every checkout; a
link in their place would decide which file of the machine is replaced.
"""

import os
import shlex
import shutil
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from reconciler.errors import ConfigError


def own_path(root: Path, name: str | Path, *, content_name: str) -> Path:
    """Return the path of a file that kquota stores.

    Args:
        content_name: Its content, for the error.

    Raises:
        ConfigError: Git tracks the file, a lock beside it, or a link on its path, also in other letters of case; or the
            file is in a repository and the git command is missing.
        GitError: Git failed; for example it refuses a repository of another user.
    """
    path = root / name
    absolute = Path(os.path.normpath(path.absolute()))
    places: dict[Path, list[Path]] = {}
    for place in dict.fromkeys((absolute, Path(os.path.realpath(absolute)))):
        top = next((at for at in place.parents if os.path.lexists(at / ".git")), None)
        if top is not None:
            places.setdefault(top, []).append(place)
    if places and shutil.which("git") is None:
        raise ConfigError(
            f"{content_name} in a repository cannot be trusted without the git command: a commit could contain them",
            location=str(path),
            hint=f"install git, or keep {content_name} outside of {min(places)}",
        )
    for top, names in places.items():
        if tracked_paths := _tracked(names, top):
            raise ConfigError(
                f"git tracks {tracked_paths[0]}, so a commit could replace it; {content_name} must not be part of a commit",
                location=str(path),
                hint=f"add it to .gitignore and run: {_removal(top, tracked_paths, names)}; pipelines keep records with"
                " inventory: {gitRef: refs/kquota/inventory}",
            )
    return path


def _tracked(places: Sequence[Path], top: Path) -> Sequence[str]:
    """Return the tracked paths of a file by its places, of locks beside it, of files below it, and of links to it."""
    links = [
        link
        for place in places
        for link in (place, *place.parents)
        if link.is_relative_to(top) and link.is_symlink()
    ]
    if not links and not any(place.parent.is_dir() for place in places):
        return ()
    from reconciler.git.repository import Repository

    names = {_folded(_below(path, top)) for path in (*places, *links)}
    beginnings = tuple(
        _folded(beginning)
        for place in places
        for beginning in (_below(place.parent / f".{place.name}.", top), f"{_below(place, top)}/")
    )
    return sorted(
        tracked_path
        for tracked_path in Repository(top=top).tracked()
        if (folded := _folded(tracked_path)) in names or folded.startswith(beginnings)
    )


def _removal(top: Path, tracked_paths: Sequence[str], places: Sequence[Path]) -> str:
    """Return the command that removes all refused names from the index, from any folder; the files stay."""
    folders = tuple(f"{_below(place, top)}/" for place in places)
    names = dict.fromkeys(
        next((folder[:-1] for folder in folders if name.startswith(folder)), name)
        for name in tracked_paths
    )
    return shlex.join(["git", "-C", str(top), "rm", "-r", "--cached", "--", *names])


def _folded(name: str) -> str:
    """Return what names have in common that are one file on a disk that ignores case or the form of accents."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _below(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix()
