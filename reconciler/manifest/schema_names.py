"""Names and patterns that the schema generator and the hand-written check share."""

from typing import Final

GROUP: Final = "kafka-quotas.io"
API_VERSION: Final = f"{GROUP}/v1alpha1"

QUOTA: Final = "ClientQuota"
CLUSTER: Final = "QuotaCluster"
PROJECT: Final = "QuotaProject"

ACCEPT: Final = f"{GROUP}/accept-"
"""Prefix of an annotation that accepts a warning; the kind follows, and the value is the reason."""

DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""Names of namespaces."""

DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""Names of resources."""

TIME: Final = (
    r"^2[0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""Times in a spec: the part of RFC 3339 that Go, CEL and Python read alike. Not ``format: date-time``, with which
the API server accepts lists of texts, commas, missing zones and the year 0.
"""

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
