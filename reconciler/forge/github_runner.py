"""Files and commands of GitHub's runner: the summary file, the output file, workflow commands. No network.

Values are written to the output file between random delimiters, and text with foreign names is logged only while
commands are stopped: a name must never be able to set an output or mask a word.
"""

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from reconciler.base.escaping import command_property, command_text
from reconciler.errors import UsageError
from reconciler.render.source_findings import RULES, Level, SourceFinding

SUMMARY_ROWS: Final = 10_000
"""Maximum number of changes in a job summary; the size limit may reduce it."""

SUMMARY_BYTES: Final = 1024 * 1024
"""Of one step's summary; a larger one is dropped completely, with a warning."""

ANNOTATIONS: Final = 10
"""Of one level in one step; GitHub drops more silently."""

_COMMANDS: Final[Mapping[Level, str]] = {
    "error": "error",
    "warning": "warning",
    "note": "notice",
}
"""The workflow command of each level."""


def annotation_lines(findings: Iterable[SourceFinding], *, title: str) -> tuple[str, ...]:
    """Return workflow commands, at most ten per level; the tenth has the number of omitted ones."""
    by_level: dict[Level, list[str]] = {level: [] for level in _COMMANDS}
    for finding in findings:
        level = RULES[finding.rule]
        by_level[level].append(_command(level, title, finding.message, finding.path, finding.line))
    lines: list[str] = []
    for level, commands in by_level.items():
        omitted = len(commands) - ANNOTATIONS + 1
        if omitted > 1:
            text = f"{omitted:,} more of this kind; the summary has all of them"
            commands[ANNOTATIONS - 1 :] = [_command(level, title, text)]
        lines += commands
    return tuple(lines)


def _command(level: Level, title: str, message: str, path: str = "", line: int = 0) -> str:
    properties = [f"title={command_property(title)}"]
    if path:
        properties.append(f"file={command_property(path)}")
        if line:
            properties.append(f"line={line}")
    return f"::{_COMMANDS[level]} {','.join(properties)}::{command_text(message)}"


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
