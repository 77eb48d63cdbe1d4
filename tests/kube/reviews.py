"""AdmissionReviews and ClientQuotas as an API server would send them."""

from typing import Any

NAMESPACE = "payments"


def quota(name: str = "alice", *, cluster: str = "prod", **spec: Any) -> dict[str, Any]:
    """A ClientQuota of a user of the same name."""
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": "u", "generation": 1},
        "spec": {
            "clusterRef": {"name": cluster},
            "entity": {"user": {"name": name}},
            "limits": {"producerByteRate": 1048576},
            **spec,
        },
    }


def review(obj: Any, *, old: Any = None, **request: Any) -> dict[str, Any]:
    """The review of the creation of an object, or of its update if an old one is given."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "11111111-2222-3333-4444-555555555555",
            "resource": {
                "group": "kafka-quotas.io",
                "version": "v1alpha1",
                "resource": "clientquotas",
            },
            "operation": "CREATE" if old is None else "UPDATE",
            "namespace": NAMESPACE,
            "object": obj,
            "oldObject": old,
            "dryRun": True,
            **request,
        },
    }
