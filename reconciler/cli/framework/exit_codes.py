"""Exit codes: their meaning and precedence, and the only mapping from errors to exit codes and messages.

A command returns an :class:`ExitCode` or raises.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final

import click

from reconciler.base.installation import incomplete_installation
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.familiar_words import OPTIONS
from reconciler.errors import KquotaError, ManifestErrors, PlanRefused, Problem, StalePlan

DEBUG_VARIABLE: Final = "KQUOTA_DEBUG"
"""Environment variable; 1 adds the traceback to every error."""


class ExitCode(IntEnum):
    """Exit codes of the process; :data:`MEANINGS` has the text of each."""

    DONE = 0
    ERROR = 1
    CHANGES = 2
    REFUSED = 3
    STALE = 4
    EVIDENCE = 5
    INTERRUPTED = 130


PRECEDENCE: Final = (
    ExitCode.INTERRUPTED,
    ExitCode.ERROR,
    ExitCode.STALE,
    ExitCode.REFUSED,
    ExitCode.EVIDENCE,
    ExitCode.CHANGES,
    ExitCode.DONE,
)
"""Highest precedence first, for runs with several codes: several clusters, or a plan with refusals and changes."""

PRECEDENCE_TEXT: Final = ", ".join(str(int(code)) for code in PRECEDENCE if code != ExitCode.DONE)

MEANINGS: Final[Mapping[ExitCode, str]] = {
    ExitCode.DONE: "success",
    ExitCode.ERROR: "error; wrong usage; a change that did not succeed or is not shown",
    ExitCode.CHANGES: "changes or drift with --detailed-exitcode; doctor: an expired override",
    ExitCode.REFUSED: "a guard, policy, scope or grant refuses; records of another project",
    ExitCode.STALE: "a saved plan does not fit the cluster or this version of kquota",
    ExitCode.EVIDENCE: "not enough evidence (only with --require-evidence)",
    ExitCode.INTERRUPTED: "interrupted; the state so far was printed",
}
"""One line for each code; the help of ``kquota`` and ``docs/commands.md`` print them."""


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the code with the highest precedence; ``DONE`` for none."""
    return min(codes, key=PRECEDENCE.index, default=ExitCode.DONE)


def run_mapped(console: Console, work: Callable[[], int]) -> ExitCode:
    """Run a command line; print any error that it raises, and return its exit code."""
    try:
        code = work()
        console.flush()
    except BaseException as error:  # noqa: BLE001 - the outermost frame of the program
        reported = report_error(console, error)
        try:
            console.flush()
        except OSError:
            console.abandon_output()
        return reported
    return ExitCode(code)


def report_error(console: Console, error: BaseException) -> ExitCode:
    """Print an error and return its exit code.

    Click's usage errors are 1, because 2 means "changes". A closed standard output (``| head``) prints nothing. An
    unexpected error is one line without a traceback.
    """
    if isinstance(error, BrokenPipeError):
        console.abandon_output()
        return ExitCode.ERROR
    if isinstance(error, SystemExit | click.exceptions.Exit):
        return _requested_code(error)
    code = _print_error(console, error)
    if os.environ.get(DEBUG_VARIABLE) == "1":
        from reconciler.cli.framework.diagnostics import traceback_text

        console.note(traceback_text(error))
    return code


def _requested_code(error: SystemExit | click.exceptions.Exit) -> ExitCode:
    code = error.exit_code if isinstance(error, click.exceptions.Exit) else error.code
    return (
        ExitCode(code) if code in tuple(ExitCode) and code != ExitCode.CHANGES else ExitCode.ERROR
    )


def _print_error(console: Console, error: BaseException) -> ExitCode:
    code = ExitCode(error.exit_code) if isinstance(error, KquotaError) else ExitCode.ERROR
    match error:
        case ManifestErrors():
            for problem in error.problems:
                console.error(_problem_text(problem), prefix="")
            console.hint(error.hint)
        case KquotaError():
            console.error(error.message)
            for detail in _details(error):
                console.detail(detail)
            console.hint(error.hint)
        case click.exceptions.NoArgsIsHelpError():
            console.note(error.format_message())
        case click.ClickException():
            console.error(" ".join(error.format_message().split()))  # one line per choice
            console.hint(_usage_hint(error))
        case KeyboardInterrupt() | click.Abort():
            console.error("interrupted")
            code = ExitCode.INTERRUPTED
        case BaseExceptionGroup():
            code = worst(_print_error(console, inner) for inner in error.exceptions)
        case _:
            _say_unforeseen(console, error)
    return code


def _usage_hint(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and error.option_name in OPTIONS:
        return f"use {OPTIONS[error.option_name]}"
    context = error.ctx if isinstance(error, click.UsageError) else None
    return "" if context is None else f"see {context.command_path} --help"


def _problem_text(problem: Problem) -> str:
    """Return ``path:line:column: message``, as editors parse it; without a line, ``error: path: message``."""
    if problem.line:
        return str(problem)
    return f"error: {problem.path}: {problem.message}"


def _details(error: KquotaError) -> Iterable[str]:
    if isinstance(error, PlanRefused):
        return error.violations
    return error.differences if isinstance(error, StalePlan) else ()


def _say_unforeseen(console: Console, error: BaseException) -> None:
    if isinstance(error, ModuleNotFoundError) and (failure := incomplete_installation(error)):
        console.error(failure.message)
        console.hint(failure.hint)
        return
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        console.error(f"{place}{error.strerror}")
        return
    words = " ".join(str(error).split())
    console.error(
        f"internal error (a bug in kquota): {type(error).__name__}{words and f': {words[:300]}'}"
    )
    if os.environ.get(DEBUG_VARIABLE) != "1":
        console.hint(f"run again with {DEBUG_VARIABLE}=1 to see the traceback, and report it")
