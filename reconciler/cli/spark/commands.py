"""``kquota spark``: the table of its commands. The module of a command is imported when it runs."""

from typing import Final

from reconciler.cli.framework.commands import CommandEntry, LazyGroup

_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "ingest": ("ingest", "Ingest recorded use from Prometheus or files into the lake."),
    "rollup": ("lake", "Compute five-minute sums and daily histograms."),
    "usage": ("reports", "Show use of each limit by client."),
    "capacity": (
        "reports",
        "Show broker budgets, the share committed by limits, and use above a fair share.",
    ),
    "report": ("reports", "Write one page of use, capacity, what-if and recommendations."),
    "client": ("reports", "Write one page for one client: when and why it was throttled."),
    "expire": ("lake", "Remove expired data from the lake."),
    "simulate": ("new_limits", "Simulate new limits on recorded use."),
    "recommend": ("new_limits", "Recommend limits from recorded use, with the evidence."),
}
"""Module below this package and summary of each command, in the order of the workflow."""

COMMANDS: Final = {
    name: CommandEntry(module=f"{__package__}.{module}", attribute=name, summary=summary)
    for name, (module, summary) in _COMMANDS.items()
}

HELP: Final = """Ingest and analyse recorded use: what clients sent, what new limits would do, which limits clients need.

ingest, client and expire need the extra `usage`, and so does simulate for up to four million samples, without Spark; the
others run on PySpark, extra `spark`, with Java 17.

\b
Example:
  kquota spark ingest --cluster prod --lake s3://metrics/kquota --publish
  KQUOTA_LAKE=./lake kquota spark ingest --all"""

spark = LazyGroup(entries=COMMANDS, name="spark", help=HELP)
