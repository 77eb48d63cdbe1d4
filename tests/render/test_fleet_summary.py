"""The table at the end of a run over several clusters."""

from reconciler.render.fleet_summary import (
    FleetOutcome,
    FleetRow,
    fleet_summary_text,
)
from reconciler.render.table import Style

ROWS = [
    FleetRow(cluster="prod", outcome=FleetOutcome.OK, changes=3, drift=1, refused=0, seconds=0.26),
    FleetRow(
        cluster="stage|x", outcome=FleetOutcome.REFUSED, changes=2, drift=0, refused=2, seconds=0.3
    ),
    FleetRow(cluster="lost", outcome=FleetOutcome.UNREACHABLE, seconds=60.0),
]


def test_the_table_has_a_row_for_each_cluster_and_a_sentence_for_all() -> None:
    text = fleet_summary_text(ROWS, style=Style())
    assert [line.split() for line in text.splitlines()] == [
        ["CLUSTER", "RESULT", "CHANGES", "DRIFT", "REFUSED", "DURATION"],
        ["prod", "ok", "3", "1", "0", "0.3s"],
        ["stage|x", "refused", "2", "0", "2", "0.3s"],
        ["lost", "unreachable", "-", "-", "-", "60.0s"],
        [
            "3",
            "clusters:",
            "1",
            "ok,",
            "1",
            "refused,",
            "1",
            "unreachable;",
            "5",
            "changes,",
            "1",
            "drifted",
        ],
    ]
