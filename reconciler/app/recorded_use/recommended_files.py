"""Files of ``kquota usage recommend --out``: one per cluster, replaced as a whole; never another file or a manifest."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.base.regular_files import boundary_of, check_inside
from reconciler.base.text_files import write_text
from reconciler.errors import UsageError
from reconciler.manifest.files import select

MARK: Final = "# Proposed by kquota usage recommend"
"""The first line of our files; other files are not replaced."""


class WrittenFiles(Struct, frozen=True, kw_only=True):
    """What became of the files."""

    written: tuple[Path, ...] = ()
    # Files of an earlier run, because there are no proposals any more.
    removed: tuple[Path, ...] = ()
    # Files that do not exist, because there are no proposals.
    absent: tuple[Path, ...] = ()


def places(
    folder: Path, names: Iterable[str], targets: Mapping[str, ClusterTarget]
) -> dict[str, Path]:
    """Return the file of each cluster, after checking that it may be written, before long work.

    Args:
        folder: The folder; it may be missing.
        names: The clusters, by their names in the project.
        targets: All clusters of the project, by name.

    Raises:
        UsageError: The folder cannot be written, a file there is not ours, or a plan would read it as a manifest.
    """
    try:
        check_inside(folder, boundary_of(folder, "/"))
        above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from error
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be written: {above} is not a writable folder")
    paths_by_name = {name: folder / f"{name}.yaml" for name in names}
    for path in paths_by_name.values():
        for target in targets.values():
            _check_unread(path, target)
        _check_ours(path)
    return paths_by_name


def put(texts: Mapping[Path, str]) -> WrittenFiles:
    """Write each file; without proposals, remove the file of an earlier run.

    Raises:
        UsageError: A file there is not ours, before any is written; or one cannot be written.
    """
    for path in texts:
        _check_ours(path)
    written_paths: list[Path] = []
    removed: list[Path] = []
    absent: list[Path] = []
    try:
        for path, text in texts.items():
            if text:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, f"{MARK}; each run replaces the whole file.\n{text}")
                written_paths.append(path)
            elif path.exists():
                path.unlink()
                removed.append(path)
            else:
                absent.append(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    return WrittenFiles(written=tuple(written_paths), removed=tuple(removed), absent=tuple(absent))


def _check_ours(path: Path) -> None:
    mark = MARK.encode()
    try:
        with path.open("rb") as file:
            begins = file.read(len(mark))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be replaced: {error.strerror or error}") from error
    if begins != mark:
        raise UsageError(
            f"{path} is not from kquota usage recommend, so it is not replaced",
            hint="choose another folder with --out, or move the file away",
        )


def _check_unread(path: Path, target: ClusterTarget) -> None:
    """Check that the file is not a manifest: then everything would be declared twice."""
    absolute = os.path.normpath(path.absolute())
    names = [
        Path(absolute).as_posix(),
        Path(os.path.relpath(absolute, target.root.absolute())).as_posix(),
    ]
    if select(target.project_cluster.manifests, names).names:
        raise UsageError(
            f"{path} would be one of the manifests of {target.name}, so its content would be declared twice",
            hint="choose a folder outside of spec.manifests with --out; move accepted documents into spec.manifests",
        )
