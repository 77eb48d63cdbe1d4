"""Rules and dashboard use only metrics and labels that exist; every alert has cases, a severity and a runbook."""

import json
import re

import pytest
import yaml

from reconciler import DOCUMENTATION
from reconciler.metrics import families
from tests.alerts import rules

TARGET = {"job", "instance"}
CLIENT = {"cluster", "resource", "type", "user", "client_id", "clientId"}
ELSEWHERE = {
    "process_resident_memory_bytes": TARGET,
    "process_cpu_seconds_total": TARGET,
    "kafka_server_quota_byte_rate": CLIENT,
    "kafka_server_quota_request_time": CLIENT,
    "kafka_server_quota_mutation_rate": CLIENT,
    "kafka_server_quota_throttle_time": CLIENT,
    "kafka_server_produce_byte_rate": CLIENT,
    "kafka_server_fetch_byte_rate": CLIENT,
    "kafka_server_request_request_time": CLIENT,
    "kafka_server_controllermutation_mutation_rate": CLIENT,
    "kafka_server_client_quota_byte_rate": CLIENT,
    "kafka_server_client_quota_request_time": CLIENT,
    "kafka_server_client_quota_mutation_rate": CLIENT,
    "kafka_server_client_quota_throttle_time_ms": CLIENT,
    "kquota:client_usage:max": {"cluster", "user", "client_id", "key"},
}
"""Series of other programs, or recorded by the shipped rules."""

DASHBOARD = json.loads(rules.DASHBOARD.read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    *(rule["expr"] for rule in rules.rules()),
    *(target["expr"] for panel in PANELS for target in panel["targets"]),
]


def known_series() -> dict[str, set[str]]:
    own_series = {name: set(labels) | TARGET for name, labels in families.SAMPLES.items()}
    return own_series | {name: set(labels) for name, labels in ELSEWHERE.items()}


def faults(expression: str) -> list[str]:
    """Unknown names, and labels that no metric of the query has."""
    series, problems = known_series(), []
    used = rules.metrics_of(expression)
    for name, labels in used.items():
        if name not in series:
            problems.append(name)
        elif labels - series[name]:
            problems.append(f"{name}: {sorted(labels - series[name])}")
    known_labels = set().union(*(series.get(name, set()) for name in used))
    for clause in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", expression):
        problems += sorted({label.strip() for label in clause.split(",")} - known_labels)
    return problems if used else ["no series at all"]


@pytest.mark.parametrize("expression", QUERIES)
def test_a_query_names_only_series_and_labels_that_exist(expression):
    assert faults(expression) == []


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ('kquota_pair{state="drifted"} > 0', "kquota_pair"),
        ('kquota_pairs{stat="drifted"} > 0', "kquota_pairs: ['stat']"),
        ("max by (clusters) (kquota_conflicts)", "clusters"),
        ("rate(kquota_pass_seconds[5m])", "kquota_pass_seconds"),
        ("1 > 0", "no series at all"),
    ],
)
def test_the_check_reports_a_misspelled_series(expression, fault):
    assert faults(expression) == [fault]


def test_states_and_outcomes_in_queries_are_values_of_the_exported_labels():
    text = " ".join(QUERIES)
    assert set(re.findall(r'state="(\w+)"', text)) <= set(families.STATES)
    for values in re.findall(r'outcome=~"([^"]+)"', text):
        assert set(values.split("|")) <= {"applied", "rejected", "held", "unknown", "not_sent"}


def test_every_metric_is_used():
    """A metric without a graph or an alert is unnecessary."""
    used = {name for query in QUERIES for name in rules.metrics_of(query)}
    unused = {
        family.name
        for family in families.FAMILIES
        if not used & set(family.samples) and family.name not in TOLD_IN_DOCS_ONLY
    }
    assert unused == set()


TOLD_IN_DOCS_ONLY = {
    "kquota_entity_drifted",  # for ad-hoc queries, where names are permitted
    "kquota_reconcile_in_progress_start_time_seconds",  # why KquotaSyncStale fires
    "kquota_last_pass_timestamp_seconds",  # for diagnosis, together with the last successful one
}


@pytest.mark.parametrize("name", sorted(rules.alerts()))
def test_an_alert_has_a_severity_a_summary_a_cause_and_an_action(name):
    alert = rules.alerts()[name]
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    assert notes["runbook_url"] == f"{DOCUMENTATION}/runbooks/{name}.md"
    page = (rules.RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    for part in ("## What it means", "## What to look at", "## What to do"):
        assert part in page


def test_every_page_of_the_runbooks_belongs_to_an_alert():
    pages = {path.stem for path in rules.RUNBOOKS.glob("*.md")}
    assert pages == set(rules.alerts())


def test_every_alert_has_a_case_where_it_fires_and_one_where_it_does_not():
    cases = yaml.safe_load(rules.CASES.read_text(encoding="utf-8"))["tests"]
    fires, silent = set(), set()
    for case in cases:
        for test in case["alert_rule_test"]:
            (fires if test["exp_alerts"] else silent).add(test["alertname"])
    assert fires == silent == set(rules.alerts())


def test_quick_rules_differ_in_durations_only():
    def bare(text: str) -> str:
        return re.sub(r"\[\d+\w+\]", "[]", text)

    (usual, _), (quick, _) = rules.groups(), rules.quick(60.0)["groups"]
    assert quick["interval"] == "1s"
    for usual_rule, other_rule in zip(usual["rules"], quick["rules"], strict=True):
        assert bare(usual_rule["expr"]) == bare(other_rule["expr"])
        assert usual_rule["annotations"] == other_rule["annotations"]
    assert {rule["alert"]: rule.get("for") for rule in quick["rules"]}["KquotaDrift"] == "10000ms"
    assert "[60000ms]" in quick["rules"][6]["expr"]


def test_panels_of_the_dashboard_do_not_overlap_and_have_unique_ids():
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        own_cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not own_cells & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        cells |= own_cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_the_dashboard_reads_its_data_source_and_clusters_from_variables():
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "cluster"}
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}


def test_labels_in_legends_are_labels_of_the_query_result():
    for panel in PANELS:
        for target in panel["targets"]:
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            clauses = re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", target["expr"])
            labels = {label.strip() for clause in clauses for label in clause.split(",")}
            assert legend <= labels, panel["title"]
