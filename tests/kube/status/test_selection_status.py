"""One status of several clusters: ready if all are, the worst reason otherwise, and each part separately."""

from typing import Any

from reconciler.kube.api.custom_resources import condition_of
from reconciler.kube.status.conditions import conditions
from reconciler.kube.status.reasons import Reason
from reconciler.kube.status.selection_status import selection_status
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
