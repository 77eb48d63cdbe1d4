"""``kquota spark``: the table of its commands. The module of a command is imported when it runs."""

from typing import Final

from reconciler.cli.framework.commands import CommandEntry, LazyGroup

_SUMMARIES: Final[dict[str, str]] = {
    "ingest": "Ingest recorded use from Prometheus or files into the lake.",
    "rollup": "Compute five-minute sums and daily histograms.",
    "usage": "Show who uses how much of which limit.",
    "capacity": "Show the capacity of brokers, what limits promise, and use above a fair share.",
    "report": "Write one page of use, capacity, what-if and recommendations.",
    "resolve": "Show which limit each client gets, and which limits apply to no client.",
    "plan": "Show what would change on all clusters.",
    "history": "Show what changed, when, and whether the change came from kquota.",
    "expire": "Remove expired data from the lake.",
    "simulate": "Simulate new limits on recorded use.",
    "recommend": "Recommend limits from recorded use, with the evidence.",
}
"""In the order of the work; a command stands here once its module exists."""

_MODULES: Final[dict[str, str]] = {
    "ingest": "ingest",
    "rollup": "lake",
    "usage": "reports",
    "capacity": "reports",
    "report": "reports",
    "resolve": "fleet",
    "plan": "fleet",
    "history": "fleet",
    "expire": "lake",
    "simulate": "new_limits",
    "recommend": "new_limits",
}
"""Where the module of each command lives, below this package."""

COMMANDS: Final = {
    name: CommandEntry(
        module=f"reconciler.cli.spark.{_MODULES[name]}", attribute=name, summary=summary
    )
    for name, summary in _SUMMARIES.items()
}

HELP: Final = """Ingest and analyse recorded use: what clients sent, what new limits would do, which limits clients need.

ingest and expire need the extra `usage`, and so does simulate up to four million samples, which it replays itself; the
others run on PySpark, extra `spark`, with Java 17.

\b
Example:
  kquota spark ingest --cluster prod --lake s3://metrics/kquota --publish
  KQUOTA_LAKE=./lake kquota spark ingest --all"""

spark = LazyGroup(entries=COMMANDS, name="spark", help=HELP)
