"""A real terminal of a given width: tmux on a separate socket."""

import shlex
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.servers import jars
from tests.servers.processes import HANG_SECONDS

ROWS = 400
"""Rows of the terminal, enough that nothing scrolls."""


@dataclass(frozen=True)
class Screenshot:
    """The screen of a terminal after a command."""

    rows: tuple[str, ...]  # its rows, without empty ones at the end
    # The lines that the command wrote: rows that the terminal wrapped are joined.
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)


def screenshot(
    *command: str, columns: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Screenshot:
    """Run a command in a terminal until it ends.

    Args:
        command: The program and its arguments.
        columns: Width of the terminal.
        folder: Working directory.
        environment: Environment variables to set.

    Raises:
        ServersUnavailable: tmux is not installed.
    """
    tmux = [
        jars.program("tmux", "tmux (Debian: apt-get install tmux)"),
        "-L",
        f"kquota-{uuid.uuid4().hex[:12]}",
        "-f",
        "/dev/null",
    ]
    words = [f"{name}={value}" for name, value in (environment or {}).items()]
    ended = shlex.join([*tmux, "wait-for", "-S", "ended"])
    script = f"cd {shlex.quote(str(folder))}; env -u CI -u NO_COLOR {shlex.join([*words, *command])}; {ended}; exec cat"
    size = ("-x", str(columns), "-y", str(ROWS))
    _run([*tmux, "new-session", "-d", *size, "sh", "-c", script])
    try:
        _run([*tmux, "wait-for", "ended"])
        capture = [*tmux, "capture-pane", "-p"]
        return Screenshot(rows=_lines(_run(capture)), lines=_lines(_run([*capture, "-J"])))
    finally:
        _run([*tmux, "kill-server"])


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in text.rstrip().splitlines())


def _run(command: list[str]) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=HANG_SECONDS
    ).stdout
