"""Files and commands of GitHub's runner: the summary file, the output file, workflow commands. No network.

Values are written to the output file between random delimiters, and text with foreign names is logged only while
commands are stopped: a name must never be able to set an output or mask a word.
"""

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from reconciler.base.escaping import command_property, command_text
from reconciler.errors import UsageError

SUMMARY_ROWS: Final = 10_000
"""Maximum number of changes in a job summary; the size limit may reduce it."""

SUMMARY_BYTES: Final = 1024 * 1024
"""Of one step's summary; a larger one is dropped completely, with a warning."""

ANNOTATIONS: Final = 10
"""Of one level in one step; GitHub drops more silently."""

Level = Literal["error", "warning", "notice"]
_LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "notice")


class Annotation(Struct, frozen=True, kw_only=True):
    """One annotation of a line."""

    level: Level
    path: str  # file, relative to the repository; "" = no place
    line: int  # from 1; 0 = the whole file
    message: str  # one sentence; escaped here


def annotation_lines(annotations: Iterable[Annotation], *, title: str) -> tuple[str, ...]:
    """Return workflow commands, at most ten per level; the tenth has the number of omitted ones."""
    by_level: dict[Level, list[Annotation]] = {level: [] for level in _LEVELS}
    for annotation in annotations:
        by_level[annotation.level].append(annotation)
    lines: list[str] = []
    for level, level_annotations in by_level.items():
        visible = (
            level_annotations
            if len(level_annotations) <= ANNOTATIONS
            else level_annotations[: ANNOTATIONS - 1]
        )
        lines += [_command(visible_annotation, title) for visible_annotation in visible]
        if len(visible) < len(level_annotations):
            omission = f"{len(level_annotations) - len(visible):,} more of this kind; the summary has all of them"
            lines.append(
                _command(Annotation(level=level, path="", line=0, message=omission), title)
            )
    return tuple(lines)


def _command(annotation: Annotation, title: str) -> str:
    properties = [f"title={command_property(title)}"]
    if annotation.path:
        properties.append(f"file={command_property(annotation.path)}")
        if annotation.line:
            properties.append(f"line={annotation.line}")
    return f"::{annotation.level} {','.join(properties)}::{command_text(annotation.message)}"


def write_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Append outputs of the step.

    Raises:
        UsageError: The file cannot be written.
    """
    lines: list[str] = []
    for name, value in outputs.items():
        delimiter = f"kquota-{secrets.token_hex(16)}"
        lines.append(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    _append(path, "".join(lines))


def room_in(path: Path) -> int:
    """Return how many bytes the summary may still get.

    Raises:
        UsageError: The size of the file cannot be read.
    """
    try:
        return max(SUMMARY_BYTES - path.stat().st_size, 0)
    except FileNotFoundError:
        return SUMMARY_BYTES
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def write_summary(path: Path, text: str) -> None:
    """Append to the summary of the step; the caller checks the size (:func:`room_in`).

    Raises:
        UsageError: The file cannot be written.
    """
    _append(path, text)


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8", newline="") as file:
            _ = file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
