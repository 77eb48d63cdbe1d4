"""docs/alerts.md lists every metric with its labels, and every alert, as in the program and the rules."""

import re
from pathlib import Path

from reconciler.metrics.families import FAMILIES
from tests.alerts import rules

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text(encoding="utf-8")


def test_every_metric_has_a_row():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `kquota_")]
    expected = []
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in (*family.labels, *family.info_labels)) or "-"
        expected.append(f"| `{family.name}` | {family.kind.value} | {labels} | {family.help} |")
    assert rows == expected


def test_every_alert_has_a_row_with_its_severity():
    rows = dict(re.findall(r"^\| (Kquota\w+) \| (\w+) \|", PAGE, re.MULTILINE))
    assert rows == {name: alert["labels"]["severity"] for name, alert in rules.alerts().items()}
