"""ClientQuotas and QuotaClusters in a test's API server, with statuses as an operator would write them."""

import copy
from collections.abc import Mapping
from typing import Any

from reconciler.quota.keys import Key
from tests.kube.crds.judging import GROUP
from tests.servers.kube.api import MERGE_PATCH
from tests.servers.kube.cluster import KubeCluster

PLURALS = {"ClientQuota": "clientquotas", "QuotaCluster": "quotaclusters"}
SINCE = "2026-01-01T00:00:00Z"


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, object]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": SINCE,
    }


def create(kube: KubeCluster, document: dict[str, Any], *, namespace: str | None = None) -> str:
    """Create a resource; return its path."""
    plural = PLURALS[document["kind"]]
    above = GROUP if namespace is None else f"{GROUP}/namespaces/{namespace}"
    if namespace is not None:
        document["metadata"]["namespace"] = namespace
    kube.api.call("POST", f"{above}/{plural}", document, query={"fieldValidation": "Strict"}).need()
    return f"{above}/{plural}/{document['metadata']['name']}"


def set_status(kube: KubeCluster, path: str, status: Mapping[str, object]) -> Any:
    return kube.api.call("PATCH", f"{path}/status", {"status": status}, kind=MERGE_PATCH).need()


def full_keys() -> list[dict[str, object]]:
    """A record per key with every field at its maximum size."""
    return [
        {
            "key": str(key),
            "desired": 1.5,
            "live": 2**53,
            "applied": 1e300,
            "appliedAt": SINCE,
            "cause": "c" * 64,
            "result": "Held",
            "message": "m" * 4096,
            "overriddenBy": {"value": 5, "until": SINCE, "who": "w" * 1024, "reason": "r" * 4096},
        }
        for key in Key
    ]


def in_default(document: dict[str, Any]) -> dict[str, Any]:
    """A copy of a document; a quota is in the namespace `default`."""
    copied = copy.deepcopy(document)
    if copied["kind"] == "ClientQuota":
        copied["metadata"]["namespace"] = "default"
    return copied
