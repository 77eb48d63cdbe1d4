"""The table of all metrics: name, type, labels and help. Rules, dashboards and docs are checked against it.

No entity, user, client-id or address is a label, except in the two families that are opt-in: clients are many, and
readers of metrics are often not allowed to read their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricKind(StrEnum):
    """Prometheus' type of a metric; an info is a gauge that is always 1."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """One metric.

    Attributes:
        name: As in queries: counters end in ``_total``, infos in ``_info``.
        kind: Its type.
        help: One sentence.
        labels: Names of its labels, in the order of the values; of an info those that identify it.
        info_labels: Labels of an info that carry a value.
        buckets: Upper bounds of a histogram.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    info_labels: tuple[str, ...] = ()
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

BUILD: Final = MetricFamily(
    name="kquota_build_info",
    kind=MetricKind.INFO,
    info_labels=("version",),
    help="Which version is running.",
)
PAIRS: Final = MetricFamily(
    name="kquota_pairs",
    kind=MetricKind.GAUGE,
    labels=(*_C, "state"),
    help="Quota keys in each state at the last complete reconciliation.",
)
DOCUMENTS: Final = MetricFamily(
    name="kquota_documents",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Documents that refer to the cluster.",
)
CONFLICTS: Final = MetricFamily(
    name="kquota_conflicts",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Quota keys that more than one document declares.",
)
DRIFT_FOUGHT: Final = MetricFamily(
    name="kquota_drift_fought_pairs",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Quota keys whose corrections another writer keeps reverting; they are no longer corrected.",
)
OVERRIDES_EXPIRED: Final = MetricFamily(
    name="kquota_overrides_expired",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Quota keys whose override has ended and whose value is still live.",
)
PASSES: Final = MetricFamily(
    name="kquota_passes_total",
    kind=MetricKind.COUNTER,
    labels=(*_C, "result", "reason"),
    help="Reconciliations by result (in_order, incomplete or failed) and reason.",
)
PASS_SECONDS: Final = MetricFamily(
    name="kquota_pass_seconds",
    kind=MetricKind.HISTOGRAM,
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
    help="Duration of a reconciliation.",
)
LAST_PASS: Final = MetricFamily(
    name="kquota_last_pass_timestamp_seconds",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Unix time at which the last reconciliation finished, successful or not.",
)
IN_PROGRESS: Final = MetricFamily(
    name="kquota_reconcile_in_progress_start_time_seconds",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Unix time at which the current reconciliation started; 0 = none is running.",
)
LAST_SYNC: Final = MetricFamily(
    name="kquota_last_successful_sync_timestamp_seconds",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Unix time of the last complete reconciliation; absent before the first.",
)
INTERVAL: Final = MetricFamily(
    name="kquota_interval_seconds",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Reconciliation interval of the cluster.",
)
OPERATIONS: Final = MetricFamily(
    name="kquota_operations_total",
    kind=MetricKind.COUNTER,
    labels=(*_C, "operation", "outcome"),
    help="Operations of plans: create, update or remove; applied, rejected, held, unknown or not_sent.",
)
WITHHELD: Final = MetricFamily(
    name="kquota_withheld_operations",
    kind=MetricKind.GAUGE,
    labels=(*_C, "guard"),
    help="Operations that a guard refused in the last reconciliation.",
)
CORRECTIONS: Final = MetricFamily(
    name="kquota_corrections_total",
    kind=MetricKind.COUNTER,
    labels=_C,
    help="Corrected drift, in quota keys.",
)
QUEUE_DEPTH: Final = MetricFamily(
    name="kquota_queue_depth",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Events waiting for the next reconciliation.",
)
BATCH_SIZE: Final = MetricFamily(
    name="kquota_batch_size",
    kind=MetricKind.HISTOGRAM,
    buckets=(1, 2, 5, 10, 25, 50, 100, 1000, 10000),
    help="Events per reconciliation.",
)
KAFKA_SECONDS: Final = MetricFamily(
    name="kquota_kafka_request_seconds",
    kind=MetricKind.HISTOGRAM,
    labels=(*_C, "api"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 65),
    help="Time from sending a request to a broker until its response.",
)
LEADER: Final = MetricFamily(
    name="kquota_leader",
    kind=MetricKind.GAUGE,
    help="Whether this replica holds the Lease; absent without leader election.",
)
WATCH_LAST_EVENT: Final = MetricFamily(
    name="kquota_watch_last_event_timestamp_seconds",
    kind=MetricKind.GAUGE,
    labels=("kind",),
    help="Unix time of the last watch event of this kind.",
)
KUBERNETES_REQUESTS: Final = MetricFamily(
    name="kquota_kubernetes_requests_total",
    kind=MetricKind.COUNTER,
    labels=("verb", "resource", "code"),
    help="Requests to the Kubernetes API server.",
)
REVISION: Final = MetricFamily(
    name="kquota_revision_info",
    kind=MetricKind.INFO,
    labels=_C,
    info_labels=("revision",),
    help="The revision of the repository that is in force.",
)
REVISION_REFUSED: Final = MetricFamily(
    name="kquota_revision_refused",
    kind=MetricKind.GAUGE,
    labels=_C,
    help="Whether a newer revision was refused, so that an older one is still in force.",
)
ENTITY_DRIFTED: Final = MetricFamily(
    name="kquota_entity_drifted",
    kind=MetricKind.GAUGE,
    labels=(*_C, "entity", "key"),
    help="Drifted quota keys by name; only with --metrics-entity-labels, at most 1000 per cluster.",
)
ENTITY_LIMIT: Final = MetricFamily(
    name="kquota_entity_limit",
    kind=MetricKind.GAUGE,
    labels=(*_C, "user", "client_id", "key"),
    help="Live limits of entities without a default part, labelled like broker metrics; only with --metrics-entity-labels, at most 10000 per cluster.",
)

FAMILIES: Final = tuple(
    family for family in tuple(globals().values()) if isinstance(family, MetricFamily)
)
"""All metrics, in the order above."""

SAMPLES: Final[Mapping[str, frozenset[str]]] = {
    name: labels for family in FAMILIES for name, labels in family.samples.items()
}
"""Every time series that can exist, with its labels."""
