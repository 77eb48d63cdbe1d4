"""What GitHub's runner reads of a step: the summary file, the output file, workflow commands. No network.

Values go into the output file between delimiters that nobody can guess, and text with foreign names goes into the log
only while commands are stopped: a name must never be able to set an output or mask a word.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from reconciler.errors import UsageError
from reconciler.render.names import command_property, command_text

SUMMARY_ROWS: Final = 10_000
"""Changes that a job summary lists; its size cuts them earlier."""

SUMMARY_BYTES: Final = 1024 * 1024
"""Of one step's summary; a larger one is dropped whole, with a warning."""

ANNOTATIONS: Final = 10
"""Of one kind in one step; more are dropped without a word."""

Level = Literal["error", "warning", "notice"]
_LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "notice")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One remark beside a line.

    Attributes:
        level: How bad it is.
        path: File, relative to the repository; "" = no place.
        line: From 1; 0 = the whole file.
        message: One sentence; escaped here.
    """

    level: Level
    path: str
    line: int
    message: str


def annotation_lines(annotations: Iterable[Annotation], *, title: str) -> tuple[str, ...]:
    """Workflow commands, at most ten per kind; the tenth says how many are missing.

    Args:
        annotations: What to say; where there are too many, earlier ones are kept.
        title: Stands above each.
    """
    by_level: dict[Level, list[Annotation]] = {level: [] for level in _LEVELS}
    for one in annotations:
        by_level[one.level].append(one)
    lines: list[str] = []
    for level, found in by_level.items():
        shown = found if len(found) <= ANNOTATIONS else found[: ANNOTATIONS - 1]
        lines += [_command(one, title) for one in shown]
        if len(shown) < len(found):
            more = f"{len(found) - len(shown):,} more of this kind; the summary has all of them"
            lines.append(_command(Annotation(level=level, path="", line=0, message=more), title))
    return tuple(lines)


def _command(one: Annotation, title: str) -> str:
    properties = [f"title={command_property(title)}"]
    if one.path:
        properties.append(f"file={command_property(one.path)}")
        if one.line:
            properties.append(f"line={one.line}")
    return f"::{one.level} {','.join(properties)}::{command_text(one.message)}"


def stopped(text: str) -> str:
    """Text in the log that is no command, whatever it holds."""
    word = secrets.token_hex(16)
    return f"::stop-commands::{word}\n{text.rstrip()}\n::{word}::\n"


def write_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Add outputs of the step.

    Raises:
        UsageError: The file cannot be written.
    """
    made: list[str] = []
    for name, value in outputs.items():
        delimiter = f"kquota-{secrets.token_hex(16)}"
        made.append(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    _append(path, "".join(made))


def room_in(path: Path, *, most: int = SUMMARY_BYTES) -> int:
    """How many bytes the summary may still get."""
    try:
        return max(most - path.stat().st_size, 0)
    except FileNotFoundError:
        return most
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def write_summary(path: Path, text: str) -> None:
    """Add to the summary of the step; the caller made it fit (:func:`room_in`).

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
