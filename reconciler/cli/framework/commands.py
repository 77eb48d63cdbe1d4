"""Base classes of commands: options under headings, ``-h`` for every command, unabridged summaries; and exit codes.

:func:`option` and :func:`flag` declare options as the help shows them. Add a new option to a heading of
:data:`HEADINGS`; an option without a heading is listed first, under "Options".

A command returns an :class:`ExitCode` or raises; :func:`report_error` is the only mapping from errors to exit codes.
"""

import difflib
import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

import click
from msgspec import Struct

from reconciler.base.installation import incomplete_installation
from reconciler.cli.framework import familiar_words
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.familiar_words import OPTIONS
from reconciler.cli.framework.runnable_hints import completed, typed_places
from reconciler.errors import KquotaError, ManifestErrors, PlanRefused, Problem, StalePlan

F = TypeVar("F", bound=Callable[..., Any])
Headings = Mapping[str, Sequence[str]]
"""Flags by heading, in the order of the help."""


def _headings(text: str) -> Headings:
    """Read lines of the form ``Heading: --flag --flag``, and add the heading that every group ends with."""
    lines = (line.partition(": ") for line in (*text.strip().splitlines(), _OUTPUT))
    return {heading: tuple(flags.split()) for heading, _, flags in lines}


_OUTPUT: Final = (
    "Output and help: --format --out --verbose --detailed-exitcode --most --log-format"
    " --log-level --summary --outputs --annotations --path-prefix --version --help"
)

_COMMON: Final = _headings("""
Cluster: --cluster --all --project --config-from --bootstrap-server --command-config --timeout --concurrency
Policy and ownership: --policy --confirm-sync --only --correct-drift --force --no-inventory --take-over --validate
Guards: --max-removals --max-removed-percent --max-change-factor --allow-newly-unlimited \
--allow-small-values --allow-defaults --allow-empty
Documents: --namespace --split --team --partial --out-dir
Recorded use: --evidence --no-evidence --require-evidence
Watching: --watch --interval --confirm-after --metrics-address --metrics-entity-labels
Kubernetes: --kubernetes --operator-namespace --kubeconfig
""")

HEADINGS: Final[Mapping[str, Headings]] = {
    "": _COMMON,
    "usage": _headings("""
Clusters and time: --lake --cluster --all --project --cluster-id --from --to --at
Source: --prometheus --http-config --file --dialect --snapshot --matchers \
--broker-id --step
Spark session: --engine --master --remote --memory
"""),
    "operator": _headings("""
Scope: --namespace --all --operator-namespace --kubeconfig --operator-class --quota-clusters --allow-references
Leader election: --leader-elect --lease-name --identity
Probes and metrics: --metrics-address --metrics-entity-labels
Admission webhook: --webhook-address --webhook-cert --webhook-key --webhook-client-ca
Bounds: --deletion-timeout --max-documents-per-namespace --max-bytes-per-namespace
"""),
    "post": _headings("""
Pull request: --api-url --repo --pull --sha --head-repo --head-branch --author
"""),
}
"""The headings of a group's commands; "" is for all other commands."""

HELP_FLAGS: Final = ("-h", "--help")

CONTEXT: Final[dict[str, Any]] = {"help_option_names": list(HELP_FLAGS), "max_content_width": 120}
"""Settings of a program's root context; the contexts of its commands inherit them."""


class _HelpOptions(click.Command):
    """The options that every command has, listed under headings."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """``-h`` and ``--help``, also where a command is run without its program's context."""
        return list(HELP_FLAGS)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options by heading; of a group also the commands."""
        write_options(ctx, formatter, self.get_params(ctx))
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)


# Not cloup, not rich-click: docs/adr/help-formatter.md.
class Command(_HelpOptions):
    """A command whose help lists options under headings, and whose hints name commands that can be run as printed."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        """Run the command; complete the hint of an error."""
        try:
            return super().invoke(ctx)
        except KquotaError as error:
            error.hint = completed(error.hint, typed_places(ctx))
            raise


class Group(_HelpOptions, click.Group):
    """A group whose help lists options under headings, and commands with unabridged summaries."""

    command_class = Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with the whole first sentence of its help."""
        rows = [(name, self.summary_of(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def summary_of(self, ctx: click.Context, name: str) -> str:
        """Return the one-line summary of a command."""
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=1_000)


def write_options(
    ctx: click.Context, formatter: click.HelpFormatter, params: Sequence[click.Parameter]
) -> None:
    """Write the options of a command, each under its heading of :data:`HEADINGS`."""
    headings = next(
        (HEADINGS[word] for word in ctx.command_path.split() if word in HEADINGS), _COMMON
    )
    heading_of = {flag: heading for heading, flags in headings.items() for flag in flags}
    rows: dict[str, dict[str, tuple[str, str]]] = {
        heading: {} for heading in ("Options", *headings)
    }
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None and isinstance(param, click.Option):
            flag = next(name for name in param.opts if name.startswith("--"))
            rows[heading_of.get(flag, "Options")][flag] = record
    for heading, records in rows.items():
        if records:
            order = headings.get(heading, tuple(records))
            with formatter.section(heading):
                formatter.write_dl([records[flag] for flag in order if flag in records])


def command(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], Command]:  # noqa: ANN401 - click's own settings
    """Like ``click.command``, with :class:`Command`."""
    return click.command(name, cls=Command, **settings)


def group(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], Group]:  # noqa: ANN401 - click's own settings
    """Like ``click.group``, with :class:`Group`."""
    return click.group(name, cls=Group, **settings)


def option(
    usage: str, text: str, kind: object = None, *, name: str = "", **settings: object
) -> Callable[[F], F]:
    """Return ``click.option``; a default that is not empty is shown in the help.

    Args:
        usage: The flags and the placeholder of the value, as in the help: ``--yes -y``, ``--out FILE``.
        text: The help.
        kind: The type of the value, as for click; ``None`` = by the default, else text.
        name: The parameter of the command; "" = by the flag.
        settings: Further settings of click.
    """
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    attributes: dict[str, Any] = {"type": kind, "help": text, **settings}
    attributes["metavar"] = next((word for word in words if word not in flags), None)
    if settings.get("default"):
        attributes.setdefault("show_default", True)
    return click.option(*flags, *filter(None, [name]), **attributes)


def flag(usage: str, text: str, *, name: str = "", **settings: object) -> Callable[[F], F]:
    """Return an option without a value; arguments as for :func:`option`."""
    return option(usage, text, name=name, is_flag=True, **settings)


class CommandEntry(Struct, frozen=True, kw_only=True):
    """Location and summary of a command."""

    module: str
    attribute: str
    summary: str


class LazyGroup(Group):
    """A group whose commands are a table of :class:`CommandEntry`, imported on use."""

    def __init__(self, *, entries: Mapping[str, CommandEntry], name: str, help: str) -> None:  # noqa: A002 - click's name
        super().__init__(name=name, help=help, no_args_is_help=True, context_settings=dict(CONTEXT))
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and return the command; ``None`` if there is none with this name."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command), cmd_name  # noqa: S101 - the table is ours
        return command

    def summary_of(self, ctx: click.Context, name: str) -> str:  # noqa: ARG002 - the signature of its class
        """Return the summary of a command from the table, without importing it."""
        return self._entries[name].summary

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; suggest what an unknown command is called here."""
        if args and args[0] not in self._entries and not args[0].startswith("-"):
            if args[0] in familiar_words.COMMANDS:
                ctx.fail(f"unknown command {args[0]!r}; use {familiar_words.COMMANDS[args[0]]}")
            near = difflib.get_close_matches(args[0], self._entries, n=1)
            suffix = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"unknown command {args[0]!r}.{suffix}")
        return super().resolve_command(ctx, args)


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
