"""One status of several clusters: ready if all are, the worst reason otherwise, and each part separately."""

from typing import Any

import pytest

from reconciler.kube.api.custom_resources import condition_of
from reconciler.kube.status.conditions import conditions
from reconciler.kube.status.reasons import Reason
from reconciler.kube.status.selection_status import MOST_CLUSTERS, selection_status
from tests.kube.worlds import seen
from tests.manifest.samples import selecting

NOW = 1_700_000_000.0


def part(reason: Reason, message: str = "words", *, generation: int = 1, **fields: Any) -> Any:
    items = conditions(reason, message, generation=generation, previous=(), now=NOW)
    return {"observedGeneration": generation, "conditions": items, **fields}


def document(generation: int = 1, **status: Any) -> dict[str, Any]:
    obj = selecting()
    obj["metadata"] |= {"generation": generation, "uid": "u1"}
    return {**obj, "status": status}


def after(*parts: tuple[str, Any], clusters: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
    """The status after the results of the clusters, one after the other."""
    status: dict[str, Any] = {}
    for name, part in parts:
        status = selection_status(
            seen(document(**status)), clusters=clusters, cluster=name, part=part, now=NOW
        )
    return status


def ready(status: dict[str, Any]) -> tuple[str, str, str]:
    condition = condition_of(status, "Ready")
    return condition["status"], condition["reason"], condition["message"]


def test_a_document_is_pending_until_every_cluster_has_reported() -> None:
    status = after(("a", part(Reason.SYNCED)))
    assert ready(status)[:2] == ("Unknown", "Pending")
    assert ready(status)[2].startswith("b: ")
    assert status["clustersReady"] == "1/2"
    status = after(("a", part(Reason.SYNCED)), ("b", part(Reason.SYNCED)))
    assert ready(status)[:2] == ("True", "Synced")
    assert status["clustersReady"] == "2/2"


def test_a_report_about_an_older_generation_is_ignored() -> None:
    older = {"name": "b", **part(Reason.SYNCED)}
    status = selection_status(
        seen(document(2, clusters=[older])),
        clusters=("a", "b"),
        cluster="a",
        part=part(Reason.SYNCED, generation=2),
        now=NOW,
    )
    assert ready(status)[1] == "Pending"
    assert status["clustersReady"] == "1/2"


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_the_worst_reason_is_shown_with_its_clusters(order: tuple[str, str]) -> None:
    parts = {"a": part(Reason.DRIFTED), "b": part(Reason.CONFLICT, "taken")}
    status = after(*((name, parts[name]) for name in order))
    assert ready(status) == ("False", "Conflict", "b: taken")
    assert [entry["name"] for entry in status["clusters"]] == ["a", "b"]


def test_a_cluster_that_is_ready_with_a_remark_counts_as_ready() -> None:
    status = after(("a", part(Reason.SYNCED)), ("b", part(Reason.DRIFTED, "was changed")))
    assert ready(status) == ("True", "Drifted", "b: was changed")
    assert status["clustersReady"] == "2/2"


def test_a_message_names_few_of_many_clusters() -> None:
    clusters = tuple(f"c{number}" for number in range(6))
    status = after(*((name, part(Reason.CONFLICT, "x")) for name in clusters), clusters=clusters)
    assert ready(status)[2] == "c0: x; c1: x; c2: x; and 3 more"


def test_a_deselected_cluster_is_omitted() -> None:
    status = after(("a", part(Reason.SYNCED)), ("b", part(Reason.CONFLICT)))
    obj = document(**status)
    now = selection_status(
        seen(obj), clusters=("a",), cluster="a", part=part(Reason.SYNCED), now=NOW
    )
    assert (ready(now)[1], now["clustersReady"]) == ("Synced", "1/1")
    late = selection_status(
        seen(obj), clusters=("a",), cluster="b", part=part(Reason.SYNCED), now=NOW
    )
    assert [entry["name"] for entry in late["clusters"]] == ["a"]


def test_a_request_is_handled_when_every_cluster_has_handled_it() -> None:
    obj = document()
    obj["metadata"]["annotations"] = {"kafka-quotas.io/requestedAt": "now"}
    handled = part(Reason.SYNCED, lastHandledReconcileAt="now")
    first = selection_status(seen(obj), clusters=("a", "b"), cluster="a", part=handled, now=NOW)
    assert "lastHandledReconcileAt" not in first
    second = selection_status(
        seen({**obj, "status": first}), clusters=("a", "b"), cluster="b", part=handled, now=NOW
    )
    assert second["lastHandledReconcileAt"] == "now"


def test_the_status_lists_as_many_clusters_as_the_definition_allows() -> None:
    clusters = tuple(f"c{number:04}" for number in range(MOST_CLUSTERS + 1))
    parts = [{"name": name, **part(Reason.SYNCED)} for name in clusters]
    status = selection_status(
        seen(document(clusters=parts)),
        clusters=clusters,
        cluster=clusters[0],
        part=part(Reason.SYNCED),
        now=NOW,
    )
    assert len(status["clusters"]) == MOST_CLUSTERS
    assert status["clustersReady"] == f"{len(clusters)}/{len(clusters)}"


def test_damaged_parts_are_pending() -> None:
    parts = [{"name": "b", "observedGeneration": 1, "conditions": [{"type": "Ready", "reason": 5}]}]
    status = selection_status(
        seen(document(clusters=parts)),
        clusters=("a", "b"),
        cluster="a",
        part=part(Reason.SYNCED),
        now=NOW,
    )
    assert ready(status)[1] == "Pending"
