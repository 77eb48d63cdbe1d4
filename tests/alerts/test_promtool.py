"""promtool checks the shipped rules and runs the cases of every alert."""

import json

import pytest

from tests.alerts import rules
from tests.servers import prometheus

pytestmark = pytest.mark.integration


def test_promtool_accepts_the_rules():
    text = prometheus.promtool("check", "rules", str(rules.ALERTS))
    assert f"SUCCESS: {len(list(rules.rules()))} rules found" in text


def test_every_case_of_every_alert_passes():
    assert "SUCCESS" in prometheus.promtool("test", "rules", str(rules.CASES))


def test_promtool_rejects_a_wrong_rule(tmp_path):
    broken = tmp_path / "alerts.yaml"
    text = rules.ALERTS.read_text(encoding="utf-8")
    broken.write_text(text.replace('state="drifted"', 'state="declared"'), encoding="utf-8")
    cases = tmp_path / "cases.yaml"
    cases.write_text(
        rules.CASES.read_text(encoding="utf-8").replace(
            "../../charts/kafka-quota-reconciler/files/alerts.yaml", str(broken)
        ),
        encoding="utf-8",
    )
    with pytest.raises(prometheus.CheckFailed, match="KquotaDrift fires"):
        prometheus.promtool("test", "rules", str(cases))


def test_the_quick_rules_and_every_query_of_the_dashboard_are_promql(tmp_path):
    queries = [
        {
            "record": f"panel{panel['id']}:{target['refId']}",
            "expr": target["expr"].replace("$__rate_interval", "5m"),
        }
        for panel in json.loads(rules.DASHBOARD.read_text(encoding="utf-8"))["panels"]
        for target in panel.get("targets", ())
    ]
    for name, content in (
        ("quick", rules.quick(300.0)),
        ("board", {"groups": [{"name": "board", "rules": queries}]}),
    ):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        assert "SUCCESS" in prometheus.promtool("check", "rules", str(file))
