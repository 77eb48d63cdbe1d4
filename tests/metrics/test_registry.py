"""The metrics of one process, as in a scrape."""

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from reconciler.errors import ConnectError
from reconciler.metrics import Metrics, families
from reconciler.metrics.registry import ENTITY_SERIES
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.guards import Guard
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState, limits_of
from tests.metrics.reconciliations import (
    APPLIED,
    NOW,
    change,
    outcome,
    passed,
    preview,
    sighting,
    withheld,
)
from tests.servers import prometheus

LIVE = QuotaState(
    limits={
        entity(user="CN=a b", client_id="web*"): limits_of({Key.PRODUCER_BYTE_RATE: 5.0}),
        entity(user=DEFAULT): limits_of({Key.PRODUCER_BYTE_RATE: 6.0}),
        entity(client_id="etl"): limits_of({Key.REQUEST_PERCENTAGE: 7.0}),
        entity(ip="10.0.0.1"): limits_of({Key.CONNECTION_CREATION_RATE: 8.0}),
    },
    foreign_values={entity(user="a"): (("new_key", 1.0), ("newer_key", 2.0))},
    foreign_entities=(((("client-id-prefix", "x"),), (("new_key", 1.0),)),),
)


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in plain(metrics.answer("").body.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((name, tuple(sorted(labels.items()))))


def everything() -> Metrics:
    metrics = Metrics(entity_labels=True)
    metrics.interval("prod", 120.0)
    metrics.in_progress("prod", 1700000000.0)
    metrics.queue("prod", 3)
    metrics.batch("prod", 3)
    metrics.leader(True)
    metrics.watched("ClientQuota", NOW)
    metrics.kubernetes("patch", "clientquotas/status", 200)
    metrics.kafka("prod", "DescribeClientQuotas", 0.02)
    metrics.revision("prod", "0123abc", is_refused=False)
    metrics.record(passed())
    metrics.record(
        passed(
            outcome=outcome((change(), APPLIED), (change(Cause.DRIFT, before=1.0), APPLIED)),
            withheld=(withheld(change(), Guard.BOUNDS_RANGE),),
            observations=(sighting(),),
            live=LIVE,
        )
    )
    return metrics


def test_after_all_updates_every_family_of_the_table_has_samples_and_no_other_family_exists():
    series = {(name, frozenset(dict(labels))) for name, labels in samples(everything())}
    own_series = {(name, labels) for name, labels in series if name.startswith("kquota_")}
    assert own_series == {(name, labels) for name, labels in families.SAMPLES.items()}


def test_both_formats_are_valid_and_have_the_same_values():
    metrics = everything()
    text = metrics.answer("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert text.content_type.startswith("application/openmetrics-text; version=1.0.0")
    read = {s.name: s.value for f in openmetrics(text.body.decode()) for s in f.samples}
    assert read["kquota_leader"] == 1.0
    assert read["kquota_corrections_total"] == 1.0
    assert metrics.answer("text/plain").content_type.startswith("text/plain; version=0.0.4")


def test_a_reconciliation_without_an_observation_keeps_earlier_values():
    metrics = Metrics()
    metrics.record(
        passed(preview=preview(desired_pairs=5), observations=(sighting(corrections_stopped=True),))
    )
    metrics.record(passed(ConnectError("no")))
    assert value(metrics, "kquota_pairs", cluster="prod", state="declared") == 5
    assert value(metrics, "kquota_pairs", cluster="prod", state="drifted") == 1
    assert value(metrics, "kquota_drift_fought_pairs", cluster="prod") == 1


def test_a_guard_that_no_longer_withholds_has_no_series():
    metrics = Metrics()
    metrics.record(passed(withheld=(withheld(change(), Guard.BOUNDS_RANGE),)))
    assert value(metrics, "kquota_withheld_operations", cluster="prod", guard="bounds.range") == 1
    metrics.record(passed())
    assert (
        value(metrics, "kquota_withheld_operations", cluster="prod", guard="bounds.range") is None
    )


def test_conflicts_settled_before_the_reconciliation_are_exported():
    metrics = Metrics()
    metrics.record(passed(), conflicts=4, foreign=2)
    assert value(metrics, "kquota_conflicts", cluster="prod") == 4
    assert value(metrics, "kquota_pairs", cluster="prod", state="foreign") == 2


def test_the_number_of_named_entities_is_bounded():
    metrics = Metrics(entity_labels=True)
    many = tuple(sighting(user=f"u{number}") for number in range(ENTITY_SERIES + 5))
    metrics.record(passed(observations=many))
    named = [name for name, _ in samples(metrics) if name == "kquota_entity_drifted"]
    assert len(named) == ENTITY_SERIES
    assert value(metrics, "kquota_pairs", cluster="prod", state="drifted") == ENTITY_SERIES + 5


def test_a_hostile_name_stays_inside_its_label():
    metrics = Metrics(entity_labels=True)
    metrics.record(passed(observations=(sighting(user='a"} 1\nkquota_leader 0 \u202e'),)))
    names = {name for name, _ in samples(metrics)}
    assert "kquota_leader" not in names
    assert metrics.answer("").body.count(b"kquota_entity_drifted{") == 1


def test_a_forgotten_cluster_has_no_series_and_others_remain():
    metrics = everything()
    metrics.record(passed(cluster="test"))
    metrics.forget("prod")
    labels = [dict(labels) for _, labels in samples(metrics)]
    assert not [label for label in labels if label.get("cluster") == "prod"]
    assert [label for label in labels if label.get("cluster") == "test"]
    assert value(metrics, "kquota_leader") == 1.0


@pytest.mark.integration
def test_promtool_accepts_the_metrics():
    assert (
        prometheus.promtool("check", "metrics", stdin=everything().answer("").body.decode()) == ""
    )


def test_a_budget_that_is_no_longer_configured_has_no_series():
    metrics = Metrics()
    metrics.record(passed())
    labels = {"cluster": "prod", "budget": "broker", "key": "producer_byte_rate"}
    assert value(metrics, "kquota_budget_allowed", **labels) == 150.0
    assert value(metrics, "kquota_budget_promised", **labels) == 120.0
    metrics.record(passed(preview=replace(preview(), budgets=())))
    assert value(metrics, "kquota_budget_promised", **labels) is None
