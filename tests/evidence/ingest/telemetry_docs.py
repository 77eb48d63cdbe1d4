"""The generated parts of docs/recorded-use-operations.md: `python -m tests.evidence.ingest.telemetry_docs --write`."""

import sys
from pathlib import Path

from reconciler.evidence.ingest.dialects import parser
from reconciler.evidence.ingest.dialects.definitions import ABOUT_QUOTAS, Dialect
from reconciler.evidence.ingest.drop_reasons import PARTIAL, DropReason

DOCUMENT = Path(__file__).parents[3] / "docs" / "recorded-use-operations.md"
NOTHING = "nothing"

ADVICE: dict[DropReason, str] = {
    DropReason.SERIES: NOTHING,
    DropReason.POINTS: NOTHING,
    DropReason.OTHER_METRIC: "nothing; narrower exporter rules or matchers save the work",
    DropReason.OTHER_CLUSTER: "check `telemetry.matchers` if this is more than you expect",
    DropReason.TWO_CLUSTERS: "write matchers that exclude each other",
    DropReason.PER_TOPIC: NOTHING,
    DropReason.PER_SHARD: "scrape `/public_metrics`",
    DropReason.NO_INSTANCE: "keep the `instance` label, or set `telemetry.brokerId`",
    DropReason.BROKER_CONFLICT: "correct `telemetry.brokerId`, or leave it out",
    DropReason.APP_INFO_UNUSED: NOTHING,
    DropReason.UNKNOWN_TYPE: "check the exporter's rules: one of them takes more than it should",
    DropReason.BAD_USER: "check the exporter's rules; look at what a relabelling changes",
    DropReason.BAD_CLIENT_ID: "use anchored rules, as in `examples/telemetry/jmx_exporter.yml`",
    DropReason.BAD_IP: "check the exporter's rules",
    DropReason.BAD_BROKER_ID: "check the rule that exports app-info",
    DropReason.NAME_LOST: "move the rules of the quotas before the general ones",
    DropReason.GROUP_ENTITY: NOTHING,
    DropReason.NOT_TEXT: "look for what writes such names",
    DropReason.CLOCK_AHEAD: "correct the clocks of the server and of this machine",
    DropReason.NOT_A_TIME: "export with times since 1970, in seconds or milliseconds",
    DropReason.NO_TIME: "export with times",
    DropReason.DUPLICATES: NOTHING,
    DropReason.CONTRADICTIONS: "two servers without a replica label? Add one",
    DropReason.HISTOGRAMS: NOTHING,
    DropReason.BAD_VALUE: "export again",
    DropReason.BAD_LINE: "look at the listed places; export again",
    DropReason.TRUNCATED: "export or copy the file again",
    DropReason.WARNINGS: "read again once all stores answer: the day is then made anew",
    DropReason.INFOS: NOTHING,
    DropReason.RETRIES: "nothing; if there are many, ask less often or at night",
    DropReason.SPLITS: NOTHING,
}


def dialects() -> str:
    """A table of all dialects and their metrics."""
    rows = [
        "| dialect | what it is | metrics | quota type in | user | client id |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*rows, *map(_row, parser.shipped().all)])


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
    none = f", {', '.join(f'`{word}`' for word in name.none)} = none" if name.none else ""
    return f"{', '.join(f'`{label}`' for label in name.labels)} ({name.decoder}{none})"


def words() -> str:
    """A table of all drop reasons."""
    rows = ["| word | counts | what to do |", "| --- | --- | --- |"]
    for word, advice in ADVICE.items():
        mark = " **Partial.**" if word in PARTIAL else ""
        rows.append(f"| `{word.word}` | {word.value}.{mark} | {advice} |")
    return "\n".join(rows)


def replaced(text: str) -> str:
    """The document with its generated parts updated."""
    for name, part in (("dialects", dialects()), ("words", words())):
        before, remainder = text.split(f"<!-- {name} -->\n")
        _, after = remainder.split(f"<!-- /{name} -->")
        text = f"{before}<!-- {name} -->\n{part}\n<!-- /{name} -->{after}"
    return text


if __name__ == "__main__":
    document = DOCUMENT.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--write"]:
        DOCUMENT.write_text(replaced(document), encoding="utf-8")
    elif replaced(document) != document:
        sys.exit(
            "docs/recorded-use-operations.md: python -m tests.evidence.ingest.telemetry_docs --write"
        )
