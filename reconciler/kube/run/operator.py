"""``kquota operator``: builds the parts of the operator process, starts and stops them in order.

standby -> lead: list everything -> watch and loops -> stop: watch and loops end -> the Lease is released

A standby only serves probes and the webhook. If any part fails, the process ends and Kubernetes starts it again; a
start writes nothing that is up to date.
"""

import asyncio
import contextlib
import logging
import os
import signal
from functools import partial
from typing import Final

from reconciler.app.event_loop import signals_handled
from reconciler.app.loop.cluster_loop import LoopIntervals, Work
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.app.loop.service import hung_loops, is_late, late_loops
from reconciler.app.loop.task_supervisor import first_of, supervise
from reconciler.base.clock import SystemClock
from reconciler.base.protocols import Clock
from reconciler.errors import LeaseLost
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS, SECRETS
from reconciler.kube.configuration.client_sessions import SessionKeeper
from reconciler.kube.configuration.cluster_references import read_clusters
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.leadership.election import ONE_TRY, ElectionSettings, Leader
from reconciler.kube.records import record_store
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.run.cluster_loops import LOST, ClusterLoops, reported
from reconciler.kube.run.cluster_reconciler import ClusterReconciler
from reconciler.kube.run.definition_guard import DefinitionGuard
from reconciler.kube.run.missing_clusters import MissingClusterReconciler
from reconciler.kube.run.operator_context import OperatorContext
from reconciler.kube.run.operator_ports import LeadingStore, OperatorPorts, process_ports
from reconciler.kube.status.status_queue import StatusQueue
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.kopf_watcher import EventHandler
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.kube.watch.resource_listing import FullListing
from reconciler.manifest.project.cluster import (
    DEFAULT_INTERVAL,
    LEAST_SECONDS,
    QuotaCluster,
    seconds,
)
from reconciler.metrics import HealthServer, Metrics, address

_LOG: Final = logging.getLogger("reconciler.kube")

LISTING_TRIES: Final = 3
"""Number of listings after which a namespace that cannot be listed no longer delays the start."""


async def run(settings: OperatorSettings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        KquotaError: The Lease was lost, a part of the process failed, or a setting is wrong.
    """
    clock = SystemClock()
    metrics = Metrics(entity_labels=settings.metrics_entity_labels)
    stop = asyncio.Event()
    if settings.kubeconfig is not None:
        os.environ["KUBECONFIG"] = str(settings.kubeconfig)  # Kopf has no parameter for the path.
    connect = partial(
        KubernetesApi.connect,
        settings.kubeconfig,
        clock=clock,
        on_request=partial(_count_request, metrics),
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(
            signals_handled(dict.fromkeys((signal.SIGTERM, signal.SIGINT), stop.set))
        )
        api = await stack.enter_async_context(await connect())
        sessions = await stack.enter_async_context(
            SessionKeeper(api, settings=settings, clock=clock, metrics=metrics)
        )
        ports = process_ports(partial(connect, patience=ONE_TRY), clock=clock)
        operator = Operator(settings, api, sessions, clock=clock, metrics=metrics, ports=ports)
        _ = await stack.enter_async_context(
            HealthServer(
                address(settings.metrics_address),
                metrics=metrics,
                healthy=operator.unhealthy,
                ready=operator.unready,
            )
        )
        if settings.webhook_address is not None:
            from reconciler.kube.admission.webhook import serving  # noqa: PLC0415 - optional, and heavy

            _ = await stack.enter_async_context(serving(api, settings, clock=clock))
        await operator.run(stop)


class Operator:
    """One operator process.

    Args:
        settings: The settings of the process.
        metrics: Receives every event.
        ports: Watches, the Lease and the audit log.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        api: KubernetesApi,
        sessions: SessionKeeper,
        *,
        clock: Clock,
        metrics: Metrics,
        ports: OperatorPorts,
    ) -> None:
        self._settings, self._api, self._sessions = settings, api, sessions
        self._clock, self._metrics, self._ports = clock, metrics, ports
        self._cache = ResourceCache(
            settings.namespace_limits, operator_class=settings.operator_class
        )
        self._loops = ClusterLoops(
            self._cache,
            work_of=self._work_of,
            pace_of=self._pace_of,
            clock=clock,
            on_end=self._forget,
        )
        self._statuses = StatusQueue(clock=clock)
        self._writer = ResourceWriter(
            api,
            cache=self._cache,
            clock=clock,
            identity=settings.identity,
            enqueue=self._loops.enqueue,
            leads=self._leads,
        )
        self._list = FullListing(
            api,
            self._cache,
            namespaces=settings.namespaces,
            from_file=None
            if settings.quota_clusters is None
            else read_clusters(settings.quota_clusters),
            enqueue=self._loops.enqueue,
            on_listed=partial(self._record_watch_event, "listing"),
        )
        self._leader: Leader | None = None
        self._heard_at: float | None = None
        self._definition = DefinitionGuard(api, self._cache)
        self._closing: set[asyncio.Future[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Stand by, lead, and return when ``stop`` is set.

        Raises:
            KquotaError: The Lease was lost, a part of the process failed, or a setting is wrong.
        """
        if not self._settings.leader_elect:
            await self._lead(stop)
            return
        election = ElectionSettings(
            namespace=self._settings.operator_namespace,
            name=self._settings.lease_name,
            identity=self._settings.identity,
        )
        leader = self._leader = self._ports.candidate(election, self._metrics.leader)
        self._metrics.leader(False)  # noqa: FBT003 - the one fact it reports
        resign = asyncio.Event()
        holding = asyncio.ensure_future(leader.run(resign))
        try:
            with self._ports.watchdog(lambda: leader.certain_until):
                await first_of(leader.elected.wait(), stop.wait(), asyncio.shield(holding))
                if leader.elected.is_set() and not stop.is_set():
                    await self._lead(stop, leader.leadership_lost)
        finally:
            resign.set()
            await asyncio.wait({holding}, timeout=5)
            _ = holding.cancel()
        if holding.done() and not holding.cancelled():
            holding.result()

    async def _lead(self, stop: asyncio.Event, lease_lost: asyncio.Event | None = None) -> None:
        ended = asyncio.Event()
        await self._list_until_it_works(stop)
        parts = {
            "loops": self._loops.run(ended),
            "statuses": self._statuses.run(),
            "watch": self._ports.watch(
                self._watched(), namespaces=self._settings.namespaces, stop=ended
            ),
            "secrets": self._ports.watch(
                {SECRETS.kind: self._secret},
                namespaces=[self._settings.operator_namespace],
                stop=ended,
            ),
            "stop": _stopped(stop, ended),
        }
        if lease_lost is not None:
            parts["lease"] = _raise_when_lost(lease_lost)
        await supervise(parts, ended)

    async def _list_until_it_works(self, stop: asyncio.Event) -> None:
        pace, failures = LoopIntervals(), 0
        while not stop.is_set() and not await self._list.start():
            failures += 1
            if failures >= LISTING_TRIES and self._cache.clusters:
                return  # A namespace that cannot be listed does not delay the others.
            await self._clock.sleep(min(pace.first_retry * 2.0**failures, 10.0))

    def _watched(self) -> dict[tuple[str, str, str], EventHandler]:
        handlers: dict[tuple[str, str, str], EventHandler] = {
            CLIENT_QUOTAS.kind: self._client_quota
        }
        if self._settings.quota_clusters is None:
            handlers[QUOTA_CLUSTERS.kind] = self._quota_cluster
        return handlers

    # ---- events from Kopf --------------------------------------------------------------------

    def _client_quota(self, kind: str, obj: Resource) -> None:
        self._record_watch_event("clientquotas")
        affected = self._cache.forget(obj) if kind == "DELETED" else self._cache.observe(obj)
        # Objects of a listing are compared completely: a listing does not show the order of changes.
        self._loops.enqueue(affected, obj.document if kind else "listing")
        for name in affected:
            if (loop := self._loops.loops.get(name)) is not None:
                self._metrics.queue(name, loop.mailbox.depth)

    def _quota_cluster(self, kind: str, obj: Resource) -> None:
        self._record_watch_event("quotaclusters")
        name = obj.name
        deleted = kind == "DELETED"
        affected = self._cache.cluster_gone(obj) if deleted else self._cache.cluster_seen(obj)
        self._loops.enqueue(affected, name)

    def _secret(self, kind: str, obj: Resource) -> None:
        if not kind:
            return  # An initial listing: each caller that needs it reads it.
        name = obj.name
        self._loops.enqueue(
            [
                cluster
                for cluster, cluster_obj in self._cache.clusters.items()
                if cluster_obj.spec.get("secretRef", {}).get("name") == name
            ],
            f"secret {name}",
        )

    def _record_watch_event(self, kind: str) -> None:
        self._heard_at = self._clock.now()
        self._metrics.watched(kind, self._heard_at)

    # ---- loops -------------------------------------------------------------------------------

    def _work_of(self, name: str) -> Work:
        if name == LOST:
            return MissingClusterReconciler(
                self._cache,
                writes=self._writer,
                clock=self._clock,
                orphan=partial(
                    record_store.orphan_everywhere, self._api, self._settings.operator_namespace
                ),
            )
        inventory = KubeInventory(
            self._api,
            self._cache,
            name=name,
            namespace=self._settings.operator_namespace,
            new_salt=self._ports.new_salt,
        )
        runner = ReconcileRunner(
            name,
            clock=self._clock,
            removals=inventory.removals,
            corrections=inventory.corrections,
        )
        work = ClusterReconciler(
            name, self._operator_context(name), inventory=inventory, runner=runner
        )
        return reported(work, partial(self._metrics.in_progress, name), clock=self._clock)

    def _operator_context(self, name: str) -> OperatorContext:
        leader = self._leader
        return OperatorContext(
            settings=self._settings,
            cache=self._cache,
            list_everything=partial(self._list.for_cluster, name),
            list_declaring=self._list.declaring,
            store_of=self._store_of,
            writes=self._writer,
            statuses=self._statuses,
            clock=self._clock,
            audit=self._ports.audit,
            refuses_removals=self._definition.refusal,
            fence_seconds=lambda: 0.0 if leader is None else leader.fence_seconds,
            secret_of=self._sessions.state,
            record_metrics=lambda report, conflicts: self._metrics.record(
                report, conflicts=conflicts
            ),
        )

    def _leads(self) -> bool:
        """Whether this process certainly leads now."""
        return self._leader is None or self._leader.leading

    async def _store_of(self, cluster: QuotaCluster) -> LeadingStore:
        client = await self._sessions.for_(cluster)
        return LeadingStore(client, self._leads, self._ports.writes)

    def _pace_of(self, name: str) -> LoopIntervals:
        if name == LOST:
            return LoopIntervals()
        interval = self._interval_of(name)
        self._metrics.interval(name, interval)
        return LoopIntervals(interval=interval)

    def _interval_of(self, name: str) -> float:
        obj = self._cache.clusters.get(name)
        text = None if obj is None else obj.spec.get("interval")
        interval = seconds(text) if isinstance(text, str) else DEFAULT_INTERVAL
        return max(interval, LEAST_SECONDS)

    def _forget(self, name: str) -> None:
        self._metrics.forget(name)
        closing = asyncio.ensure_future(self._sessions.forget(name))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    # ---- probes ------------------------------------------------------------------------------

    def unhealthy(self) -> list[str]:
        """Problems that only a restart can correct: a loop whose reconciliation never ends."""
        return hung_loops(self._loops.loops.values(), self._clock.now())

    def unready(self) -> list[str]:
        """Problems that prevent work. A standby is ready to take over; a leader that pauses is not ready."""
        if self._leader is not None and not self._leader.leading:
            paused = self._leader.elected.is_set()
            return ["leadership is paused: the Lease was not renewed in time"] if paused else []
        if self._heard_at is None:
            return ["first listing of the API server pending"]
        now, loops = self._clock.now(), self._loops.loops.values()
        longest = max((loop.interval for loop in loops), default=DEFAULT_INTERVAL)
        silent = is_late(self._heard_at, longest, now)
        problems = (
            [f"no watch event from the API server for {now - self._heard_at:.0f} s"]
            if silent
            else []
        )
        return problems + late_loops(loops, now)


def _count_request(metrics: Metrics, verb: str, resource: str, code: str) -> None:
    metrics.kubernetes(verb, resource, int(code) if code.isdigit() else 0)


async def _stopped(stop: asyncio.Event, ended: asyncio.Event) -> None:
    _ = await stop.wait()
    _LOG.info("stop requested")
    ended.set()


async def _raise_when_lost(lease_lost: asyncio.Event) -> None:
    _ = await lease_lost.wait()
    raise LeaseLost("the Lease was lost: another replica may be the leader")
