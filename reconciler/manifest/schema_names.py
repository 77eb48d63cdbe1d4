"""Names and patterns that the schema generator and the hand-written check share."""

from typing import Final

GROUP: Final = "kafka-quotas.io"
API_VERSION: Final = f"{GROUP}/v1alpha1"

QUOTA: Final = "ClientQuota"
CLUSTER: Final = "QuotaCluster"
PROJECT: Final = "QuotaProject"

DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""Names of namespaces."""

DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""Names of resources."""

SERVER_FIELDS: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""Metadata that the API server writes; ignored, so that the output of ``kubectl get -o yaml`` is a manifest."""
