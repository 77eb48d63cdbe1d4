"""The peer of the operator: handlers as in Kopf's tutorial. Run by ``python -m kopf run``; reads BOOTSTRAP.

One handler for create, update and resume. It alters the quotas of its object on the broker and patches the object's
status; Kopf does the rest by default: it stores the handled state in an annotation and posts an event.
"""

import os
from datetime import UTC, datetime
from typing import Any

import kopf

from reconciler.client import ClientConfig, QuotaClient
from reconciler.manifest.document import DocumentDeclined, from_resource
from reconciler.quota.state import Alteration, Applied, set_values


@kopf.on.startup()
async def connect(memo: kopf.Memo, **_: object) -> None:
    """One client for all handlers."""
    memo.client = QuotaClient(
        ClientConfig.from_mapping({"bootstrap.servers": os.environ["BOOTSTRAP"]})
    )


@kopf.on.create("kafka-quotas.io", "v1alpha1", "clientquotas")
@kopf.on.update("kafka-quotas.io", "v1alpha1", "clientquotas", field="spec")
@kopf.on.resume("kafka-quotas.io", "v1alpha1", "clientquotas")
async def reconcile(body: kopf.Body, memo: kopf.Memo, patch: kopf.Patch, **_: object) -> None:
    """Apply the object's quotas to the broker and report it.

    Raises:
        kopf.PermanentError: The object cannot be read, or the broker refuses it.
    """
    obj: dict[str, Any] = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {"name": body["metadata"]["name"], "namespace": body["metadata"]["namespace"]},
        "spec": dict(body["spec"]),
    }
    read = from_resource(obj)
    if isinstance(read, DocumentDeclined):
        raise kopf.PermanentError("it cannot be read")
    declared = read.declaration
    operations = tuple((str(key), value) for key, value in set_values(declared.limits))
    results = await memo.client.alter([Alteration(entity=declared.entity, operations=operations)])
    result = results[declared.entity]
    if not isinstance(result, Applied):
        raise kopf.PermanentError(str(result))
    patch.status["observedGeneration"] = body["metadata"]["generation"]
    patch.status["conditions"] = [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Synced",
            "message": "applied",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),  # noqa: TID251 - a peer
        }
    ]
