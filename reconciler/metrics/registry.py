"""The metrics of one process and their exposition. Uses its own registry, so that two instances never mix."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    Metric,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from reconciler import __version__
from reconciler.metrics import families, reconciliation_values
from reconciler.metrics.families import MetricFamily, MetricKind
from reconciler.quota.drift_tracker import DriftObservation
from reconciler.quota.entity import entity_text
from reconciler.quota.results.report import Reconciliation
from reconciler.quota.state import QuotaState

ENTITY_SERIES: Final = 1000
"""Maximum number of drifted pairs per cluster that are exported by name."""

LIMIT_SERIES: Final = 10_000
"""Maximum number of limits per cluster that are exported by name."""


class Exposition(Struct, frozen=True, kw_only=True):
    """A response to a scrape."""

    body: bytes
    content_type: str


class Metrics:
    """All metrics of a process. Cheap to call from any thread; never blocks.

    Args:
        entity_labels: Also export drifted pairs and live limits by name; then every scraper sees names of clients.
    """

    def __init__(self, *, entity_labels: bool = False) -> None:
        self._registry = CollectorRegistry()
        self._entity_labels = entity_labels
        self._metrics: dict[str, Any] = {}  # by name, as the kind in the table says
        for family in families.FAMILIES:
            # An unlabelled gauge exists from the start with 0, which would mean "not the leader".
            if family != families.LEADER:
                self._add(family)
        ProcessCollector(registry=self._registry)
        self._of(families.BUILD).info({"version": __version__})

    # ---- reconciliations -----------------------------------------------------------------------------

    def record(
        self,
        reconciliation: Reconciliation,
        *,
        conflicts: int | None = None,
        foreign: int | None = None,
    ) -> None:
        """Record a reconciliation. Values that a failed one could not observe keep their last value.

        Args:
            conflicts: Number of conflicting pairs, if resolved before; else the plan's own.
            foreign: Number of pairs with an unknown entity type or key; else counted in the live state.
        """
        cluster = reconciliation.cluster
        self._begin(cluster)
        result, reason = reconciliation_values.verdict(reconciliation)
        self._of(families.PASSES, cluster, result, reason).inc()
        self._of(families.PASS_SECONDS).observe(
            max(reconciliation.ended_at - reconciliation.started_at, 0.0)
        )
        self._of(families.LAST_PASS, cluster).set(reconciliation.ended_at)
        if reconciliation.is_finished:
            self._of(families.LAST_SYNC, cluster).set(reconciliation.ended_at)
        if reconciliation.preview is not None:
            if foreign is None:
                foreign = (
                    0
                    if reconciliation.live is None
                    else reconciliation_values.foreign_pairs(reconciliation.live)
                )
            self._record_plan(reconciliation, conflicts=conflicts, foreign=foreign)
        if reconciliation.outcome is not None:
            for (operation, outcome), count in reconciliation_values.operations(
                reconciliation.outcome
            ).items():
                self._of(families.OPERATIONS, cluster, operation, outcome).inc(count)
            self._of(families.CORRECTIONS, cluster).inc(
                reconciliation_values.corrections(reconciliation.outcome)
            )

    def _begin(self, cluster: str) -> None:
        """Create counters at 0 before they count: Prometheus' ``increase`` ignores a series that begins at 1."""
        self._of(families.CORRECTIONS, cluster)
        for operation in reconciliation_values.OPERATIONS:
            for outcome in reconciliation_values.OUTCOMES:
                self._of(families.OPERATIONS, cluster, operation, outcome)

    def _record_plan(
        self, reconciliation: Reconciliation, *, conflicts: int | None, foreign: int
    ) -> None:
        if reconciliation.preview is None:
            return
        cluster, plan = reconciliation.cluster, reconciliation.preview.plan
        for state, count in reconciliation_values.states(
            reconciliation, plan, foreign=foreign
        ).items():
            self._of(families.PAIRS, cluster, state).set(count)
        self._of(families.DOCUMENTS, cluster).set(plan.documents)
        self._of(families.CONFLICTS, cluster).set(
            len(plan.conflicts) if conflicts is None else conflicts
        )
        self._of(families.DRIFT_FOUGHT, cluster).set(
            sum(observation.corrections_stopped for observation in reconciliation.observations)
        )
        self._of(families.OVERRIDES_EXPIRED, cluster).set(len(reconciliation.expired_overrides))
        # Only guards that withhold now have a series.
        self._remove(families.WITHHELD, cluster)
        for guard, count in reconciliation_values.withheld_counts(reconciliation.withheld).items():
            self._of(families.WITHHELD, cluster, guard).set(count)
        for family in (families.BUDGET_ALLOWED, families.BUDGET_PROMISED):
            self._remove(family, cluster)
        for use in filter(lambda use: use.is_judged, reconciliation.preview.budgets):
            labels = cluster, use.budget.name, str(use.budget.key)
            self._of(families.BUDGET_ALLOWED, *labels).set(use.budget.allowed)
            self._of(families.BUDGET_PROMISED, *labels).set(use.after)
        if self._entity_labels:
            self._name_drifted(cluster, reconciliation.observations)
            if reconciliation.live is not None:
                self._name_limits(cluster, reconciliation.live)

    def _name_drifted(self, cluster: str, observations: Iterable[DriftObservation]) -> None:
        self._remove(families.ENTITY_DRIFTED, cluster)
        confirmed = [candidate for candidate in observations if candidate.confirmed]
        for observation in confirmed[:ENTITY_SERIES]:
            subject = entity_text(observation.entity)
            self._of(families.ENTITY_DRIFTED, cluster, subject, observation.key.value).set(1)

    def _name_limits(self, cluster: str, live: QuotaState) -> None:
        self._remove(families.ENTITY_LIMIT, cluster)
        for user, client_id, key, limit in islice(
            reconciliation_values.named_limits(live), LIMIT_SERIES
        ):
            self._of(families.ENTITY_LIMIT, cluster, user, client_id, key).set(limit)

    # ---- single facts -----------------------------------------------------------------------

    def interval(self, cluster: str, seconds: float) -> None:
        """Set the interval of a cluster. Call it before the first reconciliation: alerts compare with it."""
        self._of(families.INTERVAL, cluster).set(seconds)
        self._begin(cluster)

    def in_progress(self, cluster: str, started_at: float) -> None:
        """Set when the running reconciliation began, in seconds since the epoch; 0 = it ended."""
        self._of(families.IN_PROGRESS, cluster).set(started_at)

    def queue(self, cluster: str, depth: int) -> None:
        """Set the number of waiting events."""
        self._of(families.QUEUE_DEPTH, cluster).set(depth)

    def batch(self, cluster: str, size: int) -> None:
        """Record the number of events of a reconciliation."""
        del cluster  # one histogram for all clusters
        self._of(families.BATCH_SIZE).observe(size)

    def leader(self, leads: bool) -> None:  # noqa: FBT001 - the one fact it reports
        """Set whether this replica holds the Lease. Never called without leader election."""
        if families.LEADER.name not in self._metrics:
            self._add(families.LEADER)
        self._of(families.LEADER).set(leads)

    def watched(self, kind: str, at: float) -> None:
        """Set when an event of this kind was last received, in seconds since the epoch."""
        self._of(families.WATCH_LAST_EVENT, kind).set(at)

    def kubernetes(self, verb: str, resource: str, code: int) -> None:
        """Count a response of the API server; code 0 = no response."""
        self._of(families.KUBERNETES_REQUESTS, verb, resource, str(code)).inc()

    def kafka(self, cluster: str, api: str, seconds: float) -> None:
        """Record the latency of a broker's response."""
        self._of(families.KAFKA_SECONDS, cluster, api).observe(seconds)

    def revision(self, cluster: str, commit: str, *, is_refused: bool) -> None:
        """Set the metrics for the applied revision and for a refused newer revision."""
        self._of(families.REVISION, cluster).info({"revision": commit})
        self._of(families.REVISION_REFUSED, cluster).set(is_refused)

    def forget(self, cluster: str) -> None:
        """Remove the series of a cluster that is no longer served."""
        for family in families.FAMILIES:
            if "cluster" in family.labels:
                self._remove(family, cluster)

    # ---- out --------------------------------------------------------------------------------

    def answer(self, accept: str) -> Exposition:
        """Return all metrics in the format that an ``Accept`` header requests: OpenMetrics, or text."""
        encode, content_type = choose_encoder(accept)
        return Exposition(body=encode(_FilteredRegistry(self._registry)), content_type=content_type)

    # ---- the registry -----------------------------------------------------------------------

    def _add(self, family: MetricFamily) -> None:
        """Create the object of a row of the table; the library appends ``_info`` itself."""
        name, is_histogram = family.name, family.kind is MetricKind.HISTOGRAM
        settings = {"buckets": family.buckets} if is_histogram else {}
        self._metrics[name] = _CLASSES[family.kind](
            name.removesuffix("_info") if family.kind is MetricKind.INFO else name,
            family.help,
            family.labels,
            registry=self._registry,
            **settings,
        )

    def _of(self, family: MetricFamily, *values: str) -> Any:  # noqa: ANN401 - the class of its kind
        metric = self._metrics[family.name]
        return metric.labels(*values) if values else metric

    def _remove(self, family: MetricFamily, cluster: str) -> None:
        self._metrics[family.name].remove_by_labels({"cluster": cluster})


_CLASSES: Final[Mapping[MetricKind, Any]] = {
    MetricKind.COUNTER: Counter,
    MetricKind.GAUGE: Gauge,
    MetricKind.HISTOGRAM: Histogram,
    MetricKind.INFO: Info,
}


class _FilteredRegistry(Collector):
    """A registry without the ``_created`` series, which the library can only switch off for the whole process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [
                sample for sample in metric.samples if not sample.name.endswith("_created")
            ]
            yield metric
