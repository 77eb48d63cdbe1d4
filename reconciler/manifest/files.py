"""The files that paths and globs match, and their texts. Selecting is pure, so it is also used for git revisions."""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from msgspec import Struct

from reconciler.base.regular_files import boundary_of, check_inside, is_inside, read_regular
from reconciler.errors import Problem

MAX_FILES: Final = 100_000
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of all files of a run; 100,000 documents have about 40 MB."""

_GLOB: Final = re.compile(r"[*?\[]")


def _nothing() -> Iterator[tuple[str, str | Problem]]:
    return iter(())


class FileTexts(Struct, frozen=True, kw_only=True):
    """The texts of a set of files, which are read one after the other: together they take more memory than what they say."""

    names: tuple[str, ...] = ()  # sorted, none twice
    problems: tuple[
        Problem, ...
    ] = ()  # paths that match nothing, and files that are too many or too large
    texts: Callable[[], Iterator[tuple[str, str | Problem]]] = _nothing

    def __iter__(self) -> Iterator[tuple[str, str | Problem]]:
        """Read the files: yield the path and the text of each, or why it cannot be read."""
        return self.texts()


class FileSelection(Struct, frozen=True, kw_only=True, gc=False):
    """The names that a set of patterns matched."""

    names: tuple[str, ...]  # sorted, none twice
    unmatched: tuple[str, ...]  # patterns that matched nothing, in their order


def select(patterns: Sequence[str], names: Iterable[str]) -> FileSelection:
    """Match patterns against a list of files, such as those of a revision.

    Args:
        patterns: A file, a folder (everything below that ends in .yaml or .yml) or a glob; relative, with ``/``.
        names: Files, relative to the same place.
    """
    sorted_names = sorted(set(names))
    picked: set[str] = set()
    unmatched: list[str] = []
    for pattern in patterns:
        accepts = _matcher(_tidy(pattern))
        hits = [name for name in sorted_names if accepts.fullmatch(name)]
        picked.update(hits)
        if not hits:
            unmatched.append(pattern)
    return FileSelection(names=tuple(sorted(picked)), unmatched=tuple(unmatched))


def may_hold_matches(folder: str, patterns: Iterable[str]) -> bool:
    """Whether patterns can match files below a folder of another source than the disk."""
    return any(
        f"{folder}/".startswith(base := _literal_folders(pattern))
        and "/." not in f"/{folder.removeprefix(base)}"
        and (not _GLOB.search(pattern) or "**" in pattern or pattern.count("/") > folder.count("/"))
        for pattern in map(_tidy, patterns)
    )


def _literal_folders(pattern: str) -> str:
    """Return the folders before the first wildcard, with a slash; "" for the top."""
    literal = _GLOB.split(f"{pattern}/", maxsplit=1)[0]
    return literal[: literal.rfind("/") + 1].removeprefix("./")


def unmatched_problem(pattern: str) -> Problem:
    """Return the problem of a path that matches no file."""
    return Problem(
        pattern,
        0,
        0,
        f"path {pattern!r} matches no file; if nothing is declared any more, leave a file with a comment there",
    )


def read_paths(
    paths: Sequence[str],
    root: Path,
    *,
    exclude: Iterable[str] = (),
    max_files: int = MAX_FILES,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> FileTexts:
    """Read the files that paths and globs match on disk.

    Args:
        paths: As for :func:`select`; absolute ones are used unchanged.
        root: The folder that relative paths start from.
        exclude: Paths to skip, such as the project file itself.
    """
    left_out = {_tidy(path) for path in exclude}
    problems: list[Problem] = []
    files_by_name: dict[str, _FileLocation] = {}
    for pattern in paths:
        problem_count = len(problems)
        hits = {
            name: file for name, file in _on_disk(pattern, root, problems) if name not in left_out
        }
        if not hits and len(problems) == problem_count:
            problems.append(unmatched_problem(pattern))
        files_by_name |= hits
    if len(files_by_name) > max_files:
        return FileTexts(problems=(_too_many(str(root), len(files_by_name), max_files),))
    names = tuple(sorted(files_by_name))

    def texts() -> Iterator[tuple[str, str | Problem]]:
        read = ((name, _text(files_by_name[name], name, max_file_bytes)) for name in names)
        return _within_limits(read, max_file_bytes)

    return FileTexts(names=names, problems=tuple(problems), texts=texts)


def read_blobs(
    paths: Sequence[str],
    names: Iterable[str],
    sizes: Callable[[Sequence[str]], Mapping[str, int]],
    read: Callable[[Sequence[str]], Mapping[str, bytes]],
    *,
    exclude: Iterable[str] = (),
    max_files: int = MAX_FILES,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> FileTexts:
    """Read the files that paths and globs match in another source than the disk, such as a git revision.

    Args:
        names: All files, relative to the same place as ``paths``.
        sizes: Returns the sizes of some of these files; nothing is read before all sizes are accepted.
        read: Returns the contents of some of these files.
    """
    left_out = {_tidy(path) for path in exclude}
    picked = select(paths, (name for name in names if name not in left_out))
    if len(picked.names) > max_files:
        return FileTexts(problems=(_too_many("", len(picked.names), max_files),))
    problems = [unmatched_problem(path) for path in picked.unmatched]
    small_names: list[str] = []
    remaining = max(MAX_BYTES, max_file_bytes)
    for name, size in sorted(sizes(picked.names).items()):
        if size > max_file_bytes:
            problems.append(_too_large(name, max_file_bytes))
            continue
        small_names.append(name)
        remaining -= size
        if remaining < 0:
            return FileTexts(problems=(*problems, _too_much(name)))
    contents = read(small_names)

    def texts() -> Iterator[tuple[str, str | Problem]]:
        decoded = ((name, _decode(name, content)) for name, content in contents.items())
        return _within_limits(decoded, max_file_bytes)

    return FileTexts(names=tuple(contents), problems=tuple(problems), texts=texts)


def _within_limits(
    texts: Iterable[tuple[str, str | Problem]], max_file_bytes: int
) -> Iterator[tuple[str, str | Problem]]:
    """Yield the texts up to the maximum total size, and then a problem."""
    remaining = max(MAX_BYTES, max_file_bytes)
    for name, text in texts:
        remaining -= 0 if isinstance(text, Problem) else len(text)
        if remaining < 0:
            yield name, _too_much(name)
            return
        yield name, text


def _too_much(name: str) -> Problem:
    return Problem(
        name,
        0,
        0,
        f"with this file the manifests are larger than {MAX_BYTES} bytes together; split the project, or name fewer paths",
    )


def _too_many(location: str, count: int, maximum: int) -> Problem:
    return Problem(
        location,
        0,
        0,
        f"{count} files are more than the {maximum} that may be read; name fewer paths",
    )


class _FileLocation(NamedTuple):
    """The path of a file, and the folder that links on the way to it must not leave."""

    path: str
    inside: str


def _tidy(pattern: str) -> str:
    return str(PurePosixPath(os.path.normpath(pattern.replace(os.sep, "/"))))


@cache
def _matcher(pattern: str) -> re.Pattern[str]:
    """Compile a glob to an expression over whole names; a name without wildcards is a file or a folder.

    Brackets with a range that does not exist, such as ``[z-a]``, match only themselves, as in a shell.
    """
    if not _GLOB.search(pattern):
        below = "" if pattern == "." else re.escape(pattern) + "/"
        visible = r"(?:[^/.][^/]*/)*[^/.][^/]*\.ya?ml"
        return re.compile(f"{re.escape(pattern)}|{below}{visible}")
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        remainder = pattern[at:]
        if remainder.startswith("**/"):
            parts.append(r"(?:[^/.][^/]*/)*")
            at += 3
        elif remainder == "**":
            parts.append(r"(?:[^/.][^/]*/)*[^/.][^/]*")
            at += 2
        elif remainder[0] == "*":
            parts.append(r"(?!\.)[^/]*" if at == 0 or pattern[at - 1] == "/" else "[^/]*")
            at += 1
        elif remainder[0] == "?":
            parts.append("[^/]")
            at += 1
        elif (bracket := re.match(r"\[([!^]?)([^\]/]+)\]", remainder)) is not None:
            # Python reserves doubled characters in brackets for operations on sets.
            characters = re.sub(r"[\\\[&~|]", r"\\\g<0>", bracket[2]).replace("--", r"-\-")
            parts.append(f"[{'^/' if bracket[1] else ''}{characters}]")
            at += bracket.end()
        else:
            parts.append(re.escape(remainder[0]))
            at += 1
    try:
        return re.compile("".join(parts))
    except re.error:
        return re.compile(re.escape(pattern))


def _on_disk(
    pattern: str, root: Path, problems: list[Problem]
) -> Iterator[tuple[str, _FileLocation]]:
    """Yield ``(name, file)`` of all matches of a pattern; names are relative to the root if possible.

    Symbolic links to folders are followed, each at most once, and never out of the repository, as in a git
    revision. A folder that cannot be listed is a problem: a document that was not read must never look like a
    deleted one.
    """
    tidy = _tidy(pattern)
    wild = _GLOB.search(tidy)
    base = tidy if wild is None else tidy[: tidy.rfind("/", 0, wild.start()) + 1]
    start = str(root / base)
    boundary = str(boundary_of(start, root))
    try:
        check_inside(start, boundary)
    except OSError as error:
        problems.append(Problem(base or str(root), 0, 0, f"cannot be read: {error.strerror}"))
        return
    if wild is None and os.path.lexists(start) and not Path(start).is_dir():
        yield tidy, _FileLocation(start, boundary)
        return
    accepts = _matcher(tidy).fullmatch
    # Text and not Path objects: 10,000 files are common, and creating a Path takes as long as reading a file.
    walk = _FolderWalk(inside=boundary, linked={str(Path(start).resolve())}, problems=problems)
    for folder, folders, names in os.walk(
        start, followlinks=True, onerror=lambda error: _report_unlisted(error, start, problems)
    ):
        prefix = _join(base, folder[len(start) :].strip(os.sep).replace(os.sep, "/"))
        folders[:] = [name for name in folders if walk.enters(folder, name, prefix)]
        for name in names:
            display_path = _join(prefix, name)
            if accepts(display_path):
                yield display_path, _FileLocation(f"{folder}{os.sep}{name}", boundary)


def _report_unlisted(error: OSError, start: str, problems: list[Problem]) -> None:
    if error.filename != start or Path(start).exists():
        words = f"folder cannot be listed: {error.strerror or error}"
        problems.append(Problem(str(error.filename), 0, 0, words))


class _FolderWalk(Struct, frozen=True, kw_only=True, gc=False):
    """Decides which folders a walk enters: ``linked`` are the targets of links that it entered already."""

    inside: str
    linked: set[str]
    problems: list[Problem]

    def enters(self, folder: str, name: str, prefix: str) -> bool:
        path = Path(folder, name) if not name.startswith(".") else None
        if path is None or not path.is_symlink():
            return path is not None
        target = str(path.resolve())
        if not is_inside(target, self.inside):
            words = f"cannot be read: it leads to {target}, which is outside {self.inside}"
            self.problems.append(Problem(_join(prefix, name), 0, 0, words))
            return False
        is_visited = target in self.linked or Path(folder).resolve().is_relative_to(target)
        self.linked.add(target)
        return not is_visited


def _join(folder: str, name: str) -> str:
    if folder in {"", "."}:
        return name
    return f"{folder.rstrip('/')}/{name}" if name else folder.rstrip("/")


def _text(file: _FileLocation, display_path: str, max_bytes: int) -> str | Problem:
    try:
        content = read_regular(file.path, max_bytes=max_bytes, boundary=file.inside)
    except OSError as error:
        if error.errno == errno.EFBIG:
            return _too_large(display_path, max_bytes)
        return Problem(display_path, 0, 0, f"cannot be read: {error.strerror or error}")
    return _decode(display_path, content)


def _too_large(display_path: str, max_bytes: int) -> Problem:
    return Problem(
        display_path,
        0,
        0,
        f"is larger than the {max_bytes} bytes that may be read; split it",
    )


def _decode(display_path: str, content: bytes) -> str | Problem:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        return Problem(
            display_path, line, column, f"byte 0x{content[error.start]:02X} is not UTF-8"
        )
