"""``kquota spark``: the table of its commands. Each has its own file, imported when it runs."""

from typing import Final

from reconciler.cli.lazy import Entry, LazyGroup

_SUMMARIES: Final[dict[str, str]] = {
    "ingest": "Recorded use from Prometheus or files into the lake.",
    "rollup": "Five-minute sums and daily histograms of what changed.",
    "usage": "Who uses how much of which limit.",
    "capacity": "What brokers can give, what is promised, who goes beyond a fair share.",
    "report": "One page of use, capacity, what-if and recommendations.",
    "resolve": "Which limit each client gets, and which limits hold for nobody.",
    "plan": "What would change on all clusters.",
    "history": "What changed, when, and whether we did it.",
    "expire": "Remove what is past its time from the lake.",
    "simulate": "What new limits would have done to recorded use.",
    "recommend": "Which limits clients need, with the evidence; documents on request.",
}
"""In the order of the work; a command stands here once its module exists."""

COMMANDS: Final = {
    name: Entry(module=f"reconciler.cli.spark_{name}", attribute=name, summary=summary)
    for name, summary in _SUMMARIES.items()
}

HELP: Final = """Recorded use: what clients sent, what a change of limits would do to it, which limits they need.

ingest and expire need the extra `usage`, and so does simulate up to four million samples, which it replays itself; the
others run on PySpark, extra `spark`, with Java 17.

\b
Example:
  kquota spark ingest --cluster prod --lake s3://metrics/kquota --publish
  KQUOTA_LAKE=./lake kquota spark ingest --all"""

spark = LazyGroup(entries=COMMANDS, name="spark", help=HELP)
