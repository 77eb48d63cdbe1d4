"""Reads lists of clients from CSV files."""

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from reconciler.base.text_files import read_text
from reconciler.errors import UsageError
from reconciler.quota.precedence import Principal

if TYPE_CHECKING:
    from reconciler.app.change.plan_preparation import PlanTask

COLUMNS: Final = ("user", "client_id", "ip")
"""Possible columns of a file; its first line lists those that it has."""


def read_principals(source: str, paths: Sequence[str] = ()) -> tuple[Principal, ...]:
    """Return the clients of a CSV file, each once; ``-`` is standard input.

    Args:
        paths: The other files of the command: standard input can be only one of them.

    Raises:
        UsageError: It cannot be read, or is invalid; the message has the line.
    """
    if source == "-" and "-" in paths:
        raise UsageError("standard input is either the manifests or the principals, not both")
    try:
        text = sys.stdin.read() if source == "-" else read_text(Path(source))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source} cannot be read: {error}") from error
    rows = _rows(text.removeprefix("\ufeff"), source)
    head = [name.strip() for name in next(rows, (1, []))[1]]
    if not head or set(head) - set(COLUMNS) or len(set(head)) != len(head):
        raise UsageError(
            f"{source}:1: the first line must list columns; possible are {', '.join(COLUMNS)}",
            hint="user,client_id",
        )
    principals = []
    for line, row in rows:
        if not row:
            continue
        if len(row) != len(head):
            raise UsageError(f"{source}:{line}: {len(row)} fields, not {len(head)}")
        if not any(row):
            raise UsageError(f"{source}:{line}: all fields are empty")
        fields = {name: value or None for name, value in zip(head, row, strict=True)}
        principals.append(Principal(**fields))
    return tuple(dict.fromkeys(principals))


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield lines with their fields; an empty line has none."""
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise UsageError(f"{source}:{rows.line_num}: not CSV: {error}") from error


def knowing(task: "PlanTask", principals: Iterable[Principal]) -> "PlanTask":
    """Return the task with these clients added to those assessed."""
    known_principals = tuple(dict.fromkeys((*task.options.known_principals, *principals)))
    return replace(task, options=replace(task.options, known_principals=known_principals))
