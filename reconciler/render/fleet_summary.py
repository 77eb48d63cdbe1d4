"""The table at the end of a run over several clusters: the result and duration of each."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.render.sections import TableForm, name, number, text
from reconciler.render.table import Style, markdown_heads, markdown_rows, section_lines
from reconciler.render.units import count


class FleetOutcome(StrEnum):
    """The result of one cluster."""

    OK = "ok"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    FAILED = "failed"


class FleetRow(
    Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"outcome": "result"},
):
    """One cluster of a run."""

    changes: int | None = None  # number of planned or applied changes; None = unknown
    cluster: str
    drift: int | None = None
    refused: int | None = None  # number of guard violations and refusals of the broker
    outcome: FleetOutcome
    seconds: float = 0.0  # duration, without the time spent waiting for a free slot


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


_CLUSTERS: Final[TableForm[FleetRow]] = TableForm(
    "clusters",
    "Clusters",
    "",
    (
        name("CLUSTER", lambda row: row.cluster),
        text("RESULT", lambda row: str(row.outcome)),
        number("CHANGES", lambda row: _number(row.changes)),
        number("DRIFT", lambda row: _number(row.drift)),
        number("REFUSED", lambda row: _number(row.refused)),
        number("DURATION", lambda row: f"{row.seconds:.1f}s"),
    ),
)


def fleet_sentence(rows: Sequence[FleetRow]) -> str:
    """Return one line: ``500 clusters: 470 ok, 5 refused, 25 unreachable; 12 changes, 3 drifted``."""
    outcomes = Counter(row.outcome for row in rows)
    words = [f"{outcomes[outcome]:,} {outcome}" for outcome in FleetOutcome if outcomes[outcome]]
    changes = sum(row.changes or 0 for row in rows)
    drift = sum(row.drift or 0 for row in rows)
    return f"{count(len(rows), 'cluster')}: {', '.join(words)}; {count(changes, 'change')}, {drift:,} drifted"


def fleet_summary_text(rows: Sequence[FleetRow], *, style: Style) -> str:
    """Return the table and its summary line, for people."""
    return "\n".join([*section_lines(_CLUSTERS.of(rows), style=style), fleet_sentence(rows)])


def fleet_summary_markdown(rows: Sequence[FleetRow]) -> str:
    """Return the table for a comment, without durations: equal runs give equal comments."""
    section = replace(_CLUSTERS, columns=_CLUSTERS.columns[:-1]).of(rows)
    return "\n".join(
        [f"**{fleet_sentence(rows)}**", "", *markdown_heads(section), *markdown_rows(section)]
    )
