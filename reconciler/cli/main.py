"""``kquota``: the table of commands and the way in. Every command has its own file, imported when it runs."""

import gc
import keyword
import sys
from collections.abc import Sequence
from typing import Final

import click

from reconciler import __version__
from reconciler.cli.console import Console
from reconciler.cli.diagnostics import escape_diagnostics
from reconciler.cli.exits import run_mapped
from reconciler.cli.lazy import Entry, LazyGroup

_SUMMARIES: Final = {
    "plan": "What would change, and why.",
    "apply": "Make the cluster as declared: send, verify, record.",
    "drift": "What someone changed behind our back.",
    "resolve": "Which limit applies to a client, and what lost to it.",
    "describe": "Live quotas.",
    "snapshot": "Everything a cluster has, without loss, in one file.",
    "export": "Live quotas as manifests.",
    "import": "Quotas of another tool as manifests.",
    "report": "One HTML page: live quotas, plan, drift, history.",
    "validate": "Check manifests without a cluster.",
    "rollback": "Write back the values from before an apply.",
    "override": "Another limit for some hours, on top of what is declared.",
    "doctor": "Whether everything works, and what to do where it does not.",
    "post": "A plan as a comment on a pull request, drift as an issue.",
    "watch": "Keep clusters as a branch of a git repository declares.",
    "operator": "The Kubernetes operator; release its finalizers, check its rights.",
    "reconcile": "Ask the operator for a pass over a resource, and wait for it.",
    "spark": "Recorded use: ingest, what-if, right-sizing, capacity, history.",
    "sandbox": "A Kafka broker for trying out, in memory.",
    "completion": "Completion for bash, zsh and fish.",
}

COMMANDS: Final = {
    name: Entry(module=f"reconciler.cli.{word}", attribute=word, summary=summary)
    for name, summary in _SUMMARIES.items()
    for word in (f"{name}_" if keyword.iskeyword(name) else name,)
}

HELP: Final = """Kafka client quotas as code: declared in YAML, previewed, applied in few requests, verified.

\b
Example:
  kquota plan --cluster prod
  kquota apply --cluster prod

\b
Exit codes:
  0    done, nothing to say
  1    error: wrong usage too; something rejected, unknown, held back or not visible in time
  2    there are changes or drift (with --detailed-exitcode)
  3    a guard or a policy refuses
  4    a saved plan no longer fits
  5    not enough evidence (with --require-evidence)
  130  interrupted, after saying what was done

Facts go to standard output, everything else to standard error. Limits are per broker."""

cli = click.version_option(__version__, "-V", "--version", message="kquota %(version)s")(
    LazyGroup(entries=COMMANDS, name="kquota", help=HELP)
)


COLLECT_AFTER: Final = 1_000_000
"""So many new containers before CPython's cyclic collector walks over them. A run of 10,000 entities builds some hundred
thousand values that hold no rings and live until the end; to walk over them again and again was a third of the run.
What serves for days (``kquota sandbox``) goes back to the usual number."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code; never raises.

    Args:
        arguments: Without the program's name; ``None`` = those of the process.
    """
    if arguments is None:
        gc.set_threshold(COLLECT_AFTER)
    console = Console.of_process()
    if arguments is None:
        escape_diagnostics(console)
    given = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        code = cli.main(given, prog_name="kquota", standalone_mode=False, obj=console)
        return int(code or 0)

    return run_mapped(console, work)
