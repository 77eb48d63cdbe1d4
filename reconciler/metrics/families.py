"""The table of all metrics: name, type, labels and help. Rules, dashboards and docs are checked against it.

No entity, user, client-id or address is a label, except in the two families that are opt-in: clients are many, and
readers of metrics are often not allowed to read their names.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct


class MetricKind(StrEnum):
    """Prometheus' type of a metric; an info is a gauge that is always 1."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class MetricFamily(Struct, frozen=True, kw_only=True):
    """One metric."""

    name: str  # as in queries: counters end in `_total`, infos in `_info`
    kind: MetricKind
    help: str
    # Names of its labels, in the order of the values; of an info those that identify it.
    labels: tuple[str, ...] = ()
    info_labels: tuple[str, ...] = ()  # labels of an info that carry a value
    buckets: tuple[float, ...] = ()

    @property
    def samples(self) -> Mapping[str, frozenset[str]]:
        """The names of its time series, with their labels."""
        labels = frozenset((*self.labels, *self.info_labels))
        if self.kind is MetricKind.HISTOGRAM:
            return {
                f"{self.name}_bucket": labels | {"le"},
                f"{self.name}_sum": labels,
                f"{self.name}_count": labels,
            }
        return {self.name: labels}


STATES: Final = (
    "declared",
    "owned",
    "in_sync",
    "drifted",
    "unmanaged",
    "orphaned",
    "frozen",
    "restricted",
    "overridden",
    "foreign",
)
"""Values of the label ``state`` of ``PAIRS``. A pair may be in several states."""

RESULTS: Final = ("in_order", "incomplete", "failed")
"""Values of the label ``result`` of ``PASSES``."""

_C = ("cluster",)


def _counter(name: str, text: str, labels: tuple[str, ...] = _C) -> MetricFamily:
    return MetricFamily(name=name, kind=MetricKind.COUNTER, help=text, labels=labels)


def _gauge(name: str, text: str, labels: tuple[str, ...] = _C) -> MetricFamily:
    return MetricFamily(name=name, kind=MetricKind.GAUGE, help=text, labels=labels)


BUILD: Final = MetricFamily(
    name="kquota_build_info",
    kind=MetricKind.INFO,
    help="Which version is running.",
    info_labels=("version",),
)
PAIRS: Final = _gauge(
    "kquota_pairs",
    "Quota keys in each state at the last complete reconciliation.",
    labels=(*_C, "state"),
)
DOCUMENTS: Final = _gauge("kquota_documents", "Documents that refer to the cluster.")
CONFLICTS: Final = _gauge("kquota_conflicts", "Quota keys that more than one document declares.")
DRIFT_FOUGHT: Final = _gauge(
    "kquota_drift_fought_pairs",
    "Quota keys whose corrections another writer keeps reverting; they are no longer corrected.",
)
OVERRIDES_EXPIRED: Final = _gauge(
    "kquota_overrides_expired", "Quota keys whose override has ended and whose value is still live."
)
PASSES: Final = _counter(
    "kquota_passes_total",
    "Reconciliations by result (in_order, incomplete or failed) and reason.",
    labels=(*_C, "result", "reason"),
)
PASS_SECONDS: Final = MetricFamily(
    name="kquota_pass_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Duration of a reconciliation.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)
LAST_PASS: Final = _gauge(
    "kquota_last_pass_timestamp_seconds",
    "Unix time at which the last reconciliation finished, successful or not.",
)
IN_PROGRESS: Final = _gauge(
    "kquota_reconcile_in_progress_start_time_seconds",
    "Unix time at which the current reconciliation started; 0 = none is running.",
)
LAST_SYNC: Final = _gauge(
    "kquota_last_successful_sync_timestamp_seconds",
    "Unix time of the last reconciliation that did all that guards and the broker permit; absent before the first.",
)
INTERVAL: Final = _gauge("kquota_interval_seconds", "Reconciliation interval of the cluster.")
OPERATIONS: Final = _counter(
    "kquota_operations_total",
    "Operations of plans: create, update or remove; applied, rejected, held, unknown or not_sent.",
    labels=(*_C, "operation", "outcome"),
)
WITHHELD: Final = _gauge(
    "kquota_withheld_operations",
    "Operations that a guard refused in the last reconciliation.",
    labels=(*_C, "guard"),
)
BUDGET_ALLOWED: Final = _gauge(
    "kquota_budget_allowed",
    "What a budget allows on one broker, in the unit of the key.",
    labels=(*_C, "budget", "key"),
)
BUDGET_PROMISED: Final = _gauge(
    "kquota_budget_promised",
    "What the declared limits that a budget counts promise together on one broker, withheld ones included.",
    labels=(*_C, "budget", "key"),
)
CORRECTIONS: Final = _counter("kquota_corrections_total", "Corrected drift, in quota keys.")
QUEUE_DEPTH: Final = _gauge("kquota_queue_depth", "Events waiting for the next reconciliation.")
BATCH_SIZE: Final = MetricFamily(
    name="kquota_batch_size",
    kind=MetricKind.HISTOGRAM,
    help="Events per reconciliation.",
    buckets=(1, 2, 5, 10, 25, 50, 100, 1000, 10000),
)
KAFKA_SECONDS: Final = MetricFamily(
    name="kquota_kafka_request_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time from sending a request to a broker until its response.",
    labels=(*_C, "api"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 65),
)
LEADER: Final = _gauge(
    "kquota_leader",
    "Whether this replica holds the Lease; absent without leader election.",
    labels=(),
)
WATCH_LAST_EVENT: Final = _gauge(
    "kquota_watch_last_event_timestamp_seconds",
    "Unix time of the last watch event of this kind.",
    labels=("kind",),
)
KUBERNETES_REQUESTS: Final = _counter(
    "kquota_kubernetes_requests_total",
    "Requests to the Kubernetes API server.",
    labels=("verb", "resource", "code"),
)
REVISION: Final = MetricFamily(
    name="kquota_revision_info",
    kind=MetricKind.INFO,
    help="The revision of the repository that is in force.",
    labels=_C,
    info_labels=("revision",),
)
REVISION_REFUSED: Final = _gauge(
    "kquota_revision_refused",
    "Whether a newer revision was refused, so that an older one is still in force.",
)
ENTITY_DRIFTED: Final = _gauge(
    "kquota_entity_drifted",
    "Drifted quota keys by name; only with --metrics-entity-labels, at most 1000 per cluster.",
    labels=(*_C, "entity", "key"),
)
ENTITY_LIMIT: Final = _gauge(
    "kquota_entity_limit",
    "Live limits of entities without a default part, labelled like broker metrics; only with --metrics-entity-labels, at most 10000 per cluster.",
    labels=(*_C, "user", "client_id", "key"),
)

FAMILIES: Final = tuple(
    family for family in tuple(globals().values()) if isinstance(family, MetricFamily)
)
"""All metrics, in the order above."""

SAMPLES: Final[Mapping[str, frozenset[str]]] = {
    name: labels for family in FAMILIES for name, labels in family.samples.items()
}
"""Every time series that can exist, with its labels."""
