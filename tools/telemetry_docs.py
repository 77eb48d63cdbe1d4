"""The dialects and the counters of ingest, as sections of ``docs/tables.md``."""

from typing import Final

from reconciler.evidence.ingest import dialect_tables
from reconciler.evidence.ingest.dialect import ABOUT_QUOTAS, Dialect
from reconciler.evidence.ingest.drop_reasons import PARTIAL, DropReason

_NOTHING: Final = "nothing"

_ADVICE: Final[dict[DropReason, str]] = {
    DropReason.SERIES: _NOTHING,
    DropReason.POINTS: _NOTHING,
    DropReason.OTHER_METRIC: "nothing; narrower exporter rules or matchers save the work",
    DropReason.OTHER_CLUSTER: "check `telemetry.matchers` if this is more than you expect",
    DropReason.TWO_CLUSTERS: "write matchers that exclude each other",
    DropReason.PER_TOPIC: _NOTHING,
    DropReason.PER_SHARD: "scrape `/public_metrics`",
    DropReason.NO_INSTANCE: "keep the `instance` label, or set `telemetry.brokerId`",
    DropReason.BROKER_CONFLICT: "correct `telemetry.brokerId`, or leave it out",
    DropReason.APP_INFO_UNUSED: _NOTHING,
    DropReason.UNKNOWN_TYPE: "check the exporter's rules: one of them takes more than it should",
    DropReason.BAD_USER: "check the exporter's rules; look at what a relabelling changes",
    DropReason.BAD_CLIENT_ID: "use anchored rules, as in `examples/telemetry/jmx_exporter.yml`",
    DropReason.BAD_IP: "check the exporter's rules",
    DropReason.BAD_BROKER_ID: "check the rule that exports app-info",
    DropReason.NAME_LOST: "move the rules of the quotas before the general ones",
    DropReason.GROUP_ENTITY: _NOTHING,
    DropReason.NOT_TEXT: "look for what writes such names",
    DropReason.CLOCK_AHEAD: "correct the clocks of the server and of this machine",
    DropReason.NOT_A_TIME: "export with times since 1970, in seconds or milliseconds",
    DropReason.NO_TIME: "export with times",
    DropReason.DUPLICATES: _NOTHING,
    DropReason.CONTRADICTIONS: "two servers without a replica label? Add one",
    DropReason.HISTOGRAMS: _NOTHING,
    DropReason.BAD_VALUE: "export again",
    DropReason.BAD_LINE: "look at the listed places; export again",
    DropReason.TRUNCATED: "export or copy the file again",
    DropReason.WARNINGS: "read again once all stores answer: the day is then made anew",
    DropReason.INFOS: _NOTHING,
    DropReason.RETRIES: "nothing; if there are many, ask less often or at night",
    DropReason.SPLITS: _NOTHING,
    DropReason.TIME_BACKWARDS: "nothing; look at the exporter's clock if there are many",
    DropReason.BROKER_UNKNOWN: "export app-info, or set `telemetry.brokerId`",
    DropReason.UP_UNKNOWN: "nothing, if these are other targets; else as `broker_unknown`",
    DropReason.UP_ALONE: "nothing, if these are other jobs on the brokers' hosts; else look why the exporter gives nothing",
    DropReason.BROKER_CHANGED: _NOTHING,
    DropReason.OTHER_REPLICA: "nothing: a pair of servers records everything twice",
    DropReason.OTHER_INSTANCE: "two targets of one broker? Narrow `telemetry.matchers` to the job of the brokers",
    DropReason.TWO_BROKERS: "name in `telemetry.matchers` the labels that distinguish the clusters, or the one job of the brokers; or correct `telemetry.brokerId`",
    DropReason.NO_UP: "keep `up`, with the labels of their series; the day is `PARTIAL` and names them",
    DropReason.SCRAPE_FAILED: _NOTHING,
    DropReason.SNAPPED: "nothing; samples with times of their own come from exporters that set them",
    DropReason.UNALIGNED: "check `telemetry.scrapeStep`",
    DropReason.THINNED: "nothing: closer scrapes contain the same bytes twice",
    DropReason.COUNTER_FIRST: _NOTHING,
    DropReason.COUNTER_RESET: "nothing: brokers restart",
    DropReason.COUNTER_GAP: _NOTHING,
    DropReason.STANDBY_CONTROLLER: _NOTHING,
    DropReason.RATE_NOT_A_NUMBER: _NOTHING,
    DropReason.RATE_BELOW_ZERO: _NOTHING,
    DropReason.RATE_CLAMPED: "check the unit that the exporter gives",
    DropReason.FILLED: _NOTHING,
    DropReason.NOT_MEASURED: "add quota snapshots (`--snapshot`): a limit of the type shows that the broker counts",
    DropReason.QUOTA_CHANGED: "take snapshots more often, for example before each ingest",
    DropReason.QUOTA_UNKNOWN: "add a quota snapshot (`--snapshot`) from before these samples",
}


def dialects() -> str:
    """A table of all dialects and their metrics."""
    rows = [
        "| dialect | what it is | metrics | quota type in | user | client id |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*rows, *map(_row, dialect_tables.shipped().all)])


def _row(dialect: Dialect) -> str:
    metrics = "<br>".join(
        f"`{metric.name.pattern.replace('?P<type>', '').replace('|', chr(92) + '|')}`: {metric.measure}"
        for metric in dialect.metrics
        if metric.measure in ABOUT_QUOTAS
    )
    kind = f"`{dialect.type_label.label}`" if dialect.type_label else "the name"
    return f"| `{dialect.name}` | {dialect.about} | {metrics} | {kind} | {_name(dialect, 'user')} | {_name(dialect, 'client_id')} |"


def _name(dialect: Dialect, part: str) -> str:
    name = dialect.names[part]
    return f"{', '.join(f'`{label}`' for label in name.labels)} ({name.decoder})"


def words() -> str:
    """A table of all drop reasons.

    Raises:
        KeyError: A reason has no advice.
    """
    rows = ["| word | counts | what to do |", "| --- | --- | --- |"]
    for word in DropReason:
        mark = " **Partial.**" if word in PARTIAL else ""
        rows.append(f"| `{word.word}` | {word.value}.{mark} | {_ADVICE[word]} |")
    return "\n".join(rows)
