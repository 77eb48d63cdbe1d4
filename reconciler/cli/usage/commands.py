"""``kquota usage``: the table of its commands. The module of a command is imported when it runs."""

from typing import Final

from reconciler.cli.framework.commands import CommandEntry, LazyGroup

_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "ingest": ("ingest", "Ingest recorded use from Prometheus or files into the lake."),
    "show": ("reports", "Show use of each limit by client."),
    "simulate": ("new_limits", "Simulate new limits on recorded use."),
    "recommend": ("new_limits", "Recommend limits from recorded use, with the evidence."),
    "capacity": (
        "reports",
        "Show broker budgets, the share committed by limits, and use above a fair share.",
    ),
    "client": ("reports", "Write one page for one client: when and why it was throttled."),
    "report": ("reports", "Write one page of use, capacity, what-if and recommendations."),
    "files": ("reports", "List the Parquet files of a table, for any other engine."),
}
"""Module below this package and summary of each command, in the order of the workflow."""

COMMANDS: Final = {
    name: CommandEntry(module=f"{__package__}.{module}", attribute=name, summary=summary)
    for name, (module, summary) in _COMMANDS.items()
}

HELP: Final = """Ingest and analyse recorded use: what clients sent, what new limits would do, which limits clients need.

Everything needs the extra `usage`, and runs in processes of this machine. With the extra `spark` and Java 17, PySpark runs
the same analyses (--engine spark).

\b
Example:
  kquota usage ingest --cluster prod --lake s3://metrics/kquota --previews
  KQUOTA_LAKE=./lake kquota usage ingest --all"""

usage = LazyGroup(entries=COMMANDS, name="usage", help=HELP)
