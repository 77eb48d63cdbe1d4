"""The table at the end of a run over several clusters: the result and duration of each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.base.escaping import escaped, markdown
from reconciler.render.json_values import Json
from reconciler.render.table import Style, table
from reconciler.render.units import count

_HEADS: Final = ("CLUSTER", "RESULT", "CHANGES", "DRIFT", "REFUSED", "DURATION")


class FleetOutcome(StrEnum):
    """The result of one cluster."""

    OK = "ok"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """One cluster of a run."""

    cluster: str
    outcome: FleetOutcome
    changes: int | None = None  # number of planned or applied changes; None = unknown
    drift: int | None = None
    refused: int | None = None  # number of guard violations and refusals of the broker
    seconds: float  # duration, without the time spent waiting for a free slot

    @property
    def cells(self) -> list[str]:
        """The cells of the table."""
        numbers = (self.changes, self.drift, self.refused)
        return [
            escaped(self.cluster),
            str(self.outcome),
            *("-" if number is None else f"{number:,}" for number in numbers),
            f"{self.seconds:.1f}s",
        ]


def fleet_sentence(rows: Sequence[FleetRow]) -> str:
    """Return one line: ``500 clusters: 470 ok, 5 refused, 25 unreachable; 12 changes, 3 drifted``."""
    outcomes = Counter(row.outcome for row in rows)
    words = [f"{outcomes[outcome]:,} {outcome}" for outcome in FleetOutcome if outcomes[outcome]]
    changes = sum(row.changes or 0 for row in rows)
    drift = sum(row.drift or 0 for row in rows)
    return f"{count(len(rows), 'cluster')}: {', '.join(words)}; {count(changes, 'change')}, {drift:,} drifted"


def fleet_summary_text(rows: Sequence[FleetRow], *, style: Style) -> str:
    """Return the table and its summary line, for people."""
    lines = table([row.cells for row in rows], heads=_HEADS, style=style)
    return "\n".join([*lines, fleet_sentence(rows)])


def fleet_summary_markdown(rows: Sequence[FleetRow]) -> str:
    """Return the table for a comment, without durations: equal runs give equal comments."""
    heads = "| " + " | ".join(head.capitalize() for head in _HEADS[:-1]) + " |"
    lines = [heads, "| --- | --- | ---: | ---: | ---: |"]
    lines += ["| " + " | ".join([markdown(row.cluster), *row.cells[1:-1]]) + " |" for row in rows]
    return "\n".join([f"**{fleet_sentence(rows)}**", "", *lines])


def fleet_summary_document(rows: Sequence[FleetRow]) -> list[Json]:
    """Return the rows for programs, without durations: equal runs give equal documents."""
    return [
        {
            "cluster": row.cluster,
            "result": str(row.outcome),
            "changes": row.changes,
            "drift": row.drift,
            "refused": row.refused,
        }
        for row in rows
    ]
