"""The console: results go to standard output, messages and progress to standard error, colours and bars to terminals.

A run has one console, made from the streams of the process. A failed write to standard error is ignored, so that a
closed pipe does not interrupt an apply.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TextIO

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.render.json_values import Json
    from reconciler.render.table import Style

BAR_AFTER_SECONDS: Final = 1.0
"""Phases shorter than this show no progress."""

_BAR_EVERY_SECONDS: Final = 0.1
_LINE_EVERY_SECONDS: Final = 5.0
_BAR_CELLS: Final = 24
_STYLES: Final = {"error": "\x1b[31;1m", "warning": "\x1b[33m", "hint": "\x1b[2m", "off": "\x1b[0m"}


def has_colour(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether a stream is coloured.

    In order of precedence: ``NO_COLOR`` (no-color.org), ``FORCE_COLOR`` (force-color.org; 0 and
    false do not force, as in Node.js), whether the stream is a terminal with colours.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR", "") not in {"", "0", "false"}:
        return True
    return terminal and environment.get("TERM") != "dumb"


class Console(Struct, frozen=True, kw_only=True):
    """The standard streams, and what they support."""

    stdout: TextIO
    stderr: TextIO
    colour: bool
    err_colour: bool
    err_terminal: bool  # whether a progress bar can be drawn
    asks: bool  # whether a question can be asked on a terminal
    # Columns of the terminal; 0 = standard output is not a terminal, and lines are neither folded nor cut.
    width: int
    err_width: int = 0  # the same for messages on standard error

    @property
    def style(self) -> "Style":
        """Colour and width of results."""
        from reconciler.render.table import Style

        return Style(colour=self.colour, width=self.width)

    @classmethod
    def of_process(cls, environment: Mapping[str, str] = os.environ) -> "Console":
        """Return the console of this process. Characters that the terminal cannot encode are escaped."""
        # Closed by the parent process (`>&-`). Opening a file takes the free descriptor, so that no socket gets it. Results
        # need a reader: a write to a file that is opened for reading fails. Messages do not.
        for name, mode in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
            if getattr(sys, name) is None:
                setattr(sys, name, os.fdopen(os.open(os.devnull, mode), "w", encoding="utf-8"))
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")
        out_terminal, err_terminal = sys.stdout.isatty(), sys.stderr.isatty()
        return cls(
            stdout=sys.stdout,
            stderr=sys.stderr,
            colour=has_colour(environment, terminal=out_terminal),
            err_colour=has_colour(environment, terminal=err_terminal),
            err_terminal=err_terminal and environment.get("TERM") != "dumb",
            asks=sys.stdin is not None and sys.stdin.isatty() and err_terminal,
            width=_columns(sys.stdout, environment) if out_terminal else 0,
            err_width=_columns(sys.stderr, environment) if err_terminal else 0,
        )

    def for_messages(self) -> "Console":
        """Return a console whose results are messages: they go to standard error."""
        return replace(self, stdout=self.stderr, colour=self.err_colour, width=self.err_width)

    def fact(self, text: str) -> None:
        """Print a result to standard output.

        Raises:
            BrokenPipeError: The reader has closed the pipe.
            OSError: It cannot be written, for example because the disk is full.
        """
        self._write(_leaving(_line(text), colours=self.colour))

    def fact_in(self, path: Path | None, text: str) -> None:
        """Write a result to a file that only its owner may read, or print it without a path."""
        if path is None:
            self.fact(text)
            return
        from reconciler.base.text_files import write_text

        write_text(path, text, private=True)
        self.note(f"written to {path}")

    def document(self, document: "Mapping[str, Json] | Struct") -> None:
        """Print one JSON document."""
        from reconciler.render.json_values import dump

        self.fact(dump(document))

    def workflow_command(self, line: str) -> None:
        """Print a workflow command for GitHub's runner; its parts are already escaped (``forge.runner``)."""
        self._write(_line(line))

    def program(self, text: str) -> None:
        """Print a script for another program unchanged; it must not contain text from other sources."""
        self._write(_line(text))

    def note(self, text: str) -> None:
        """Print a message to standard error, folded to the terminal; commands and words stay whole."""
        if self.err_width:
            from reconciler.render.table import Style, fold_lines

            lines = fold_lines(text.split("\n"), Style(width=self.err_width), is_message=True)
            text = "\n".join(lines)
        with contextlib.suppress(OSError, ValueError):
            self.stderr.write(_leaving(_line(text) or "\n", colours=self.err_colour))
            self.stderr.flush()

    def warning(self, text: str) -> None:
        """Print a warning."""
        self.note(f"{self._paint('warning', 'warning:')} {_escape_line(text)}")

    def error(self, text: str, *, prefix: str = "error: ") -> None:
        """Print an error."""
        self.note(f"{self._paint('error', prefix) if prefix else ''}{_escape_line(text)}")

    def detail(self, text: str) -> None:
        """Print an item of a list under an error or a warning."""
        self.note(f"  - {_escape_line(text)}")

    def hint(self, text: str) -> None:
        """Print the next step; nothing for an empty text."""
        if text:
            self.note(self._paint("hint", f"hint: {_escape_line(text)}"))

    def question(self, text: str, *, choices: str = "[y/N]") -> None:
        """Print a question without a line end."""
        with contextlib.suppress(OSError, ValueError):
            self.stderr.write(_leaving(f"{text} {choices} ", colours=self.err_colour))
            self.stderr.flush()

    def check_can_ask(self, *, yes: bool) -> None:
        """Check that ``--yes`` was given or a question can be asked.

        Raises:
            UsageError: Standard input is not a terminal, and ``yes`` is false.
        """
        if not (yes or self.asks):
            raise UsageError("stdin is not a terminal", hint="pass --yes to confirm")

    def answer(self) -> bool:
        """Whether the answer is y or yes; the end of input is no."""
        return self.reply().lower() in {"y", "yes"}

    def reply(self) -> str:
        """Return the typed line, stripped; "" at the end of input."""
        line = sys.stdin.readline()
        if not line.endswith("\n"):
            self.note("")
        return line.strip()

    def flush(self) -> None:
        """Flush standard output, so that a closed pipe or a full disk raises here."""
        with _naming_output():
            self.stdout.flush()

    def abandon_output(self) -> None:
        """Redirect standard output to the null device, so that the interpreter's flush at exit cannot fail."""
        with contextlib.suppress(OSError, ValueError):
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, self.stdout.fileno())
            os.close(null_device)

    def _write(self, text: str) -> None:
        with _naming_output():
            _ = self.stdout.write(text)

    def _paint(self, style: str, text: str) -> str:
        return f"{_STYLES[style]}{text}{_STYLES['off']}" if self.err_colour else text


def _columns(stream: TextIO, environment: Mapping[str, str]) -> int:
    """Return the columns of a terminal: ``COLUMNS``, else those of the device, else 100."""
    stated = environment.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or 100
    return 100


@contextlib.contextmanager
def _naming_output() -> Iterator[None]:
    """Add the name of the stream to an error of the operating system."""
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def _line(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _leaving(text: str, *, colours: bool) -> str:
    """Escape what no renderer escaped; the last step before a message or a result is written."""
    from reconciler.base.output_text import output_text

    return output_text(text, colours=colours)


def _escape_line(text: str) -> str:
    """Escape text that may contain names or broker messages, so that it cannot forge lines or colours."""
    from reconciler.base.escaping import escaped

    return escaped(text)


class ProgressLine:
    """A progress callback: a bar on a terminal, otherwise a line every five seconds; silent for short phases.

    Use it as a context manager, which erases the bar at the end.
    """

    def __init__(
        self, console: Console, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._monotonic = monotonic
        self._phase = ""
        self._began = self._shown = monotonic()
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wipe()

    def __call__(self, phase: str, done: int, total: int, *, detail: str = "") -> None:
        """Show the progress of a phase that has lasted long enough; a total of 0 means unknown."""
        now = self._monotonic()
        if phase != self._phase:
            self._wipe()
            self._phase, self._began, self._shown = phase, now, now - _LINE_EVERY_SECONDS
        pause = _BAR_EVERY_SECONDS if self._console.err_terminal else _LINE_EVERY_SECONDS
        if now - self._began < BAR_AFTER_SECONDS or now - self._shown < pause:
            return
        if total and done >= total and self._shown < self._began:
            return  # The phase has ended, and nothing of it was shown.
        self._shown = now
        if not self._console.err_terminal:
            self._console.note(f"{phase}: {done:,} of {total:,}{detail}")
            return
        if total:
            filled = _BAR_CELLS * done // total
            bar = "#" * filled + "-" * (_BAR_CELLS - filled)
            self._draw(f"\r{phase} [{bar}] {done:,}/{total:,}{detail}\x1b[K")
        else:
            self._draw(f"\r{phase}: {done:,}\x1b[K")
        self._drawn = True

    def _wipe(self) -> None:
        if self._drawn:
            self._draw("\r\x1b[K")
            self._drawn = False

    def _draw(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._console.stderr.write(text)
            self._console.stderr.flush()


class ConsoleNotices:
    """Prints notices; implements ``app.requests.Notices``. A context manager, which erases the progress bar at the end."""

    def __init__(
        self, console: Console, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._line = ProgressLine(console, monotonic=monotonic)
        self.note, self.warning, self.hint = console.note, console.warning, console.hint

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._line.__exit__(*error)

    def progress(self, phase: str, done: int, total: int) -> None:
        """Show the progress of a phase; one of unknown length only on a terminal."""
        if total or self._console.err_terminal:
            self._line(phase, done, total)
