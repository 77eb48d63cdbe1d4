"""One cluster under `kquota drift --watch`: its client, its records, what is remembered of drift, and one look at a time."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from reconciler.cli.connection import telling
from reconciler.cli.console import Console
from reconciler.cli.orders import origin_of
from reconciler.cli.own_files import own_path
from reconciler.cli.records import opened, read_only_inventory
from reconciler.cli.where import Target
from reconciler.cli.world import by_rules
from reconciler.client import QuotaClient
from reconciler.client.events import ResponseReceived
from reconciler.errors import InventoryLocked, KquotaError, UsageError
from reconciler.inventory.audit import FileAuditLog
from reconciler.loop.cluster_loop import Turn, Wake
from reconciler.loop.pace import Pace
from reconciler.loop.passes import Passes
from reconciler.loop.removals import MemoryRemovals, RemovalWindow
from reconciler.loop.turns import needs_confirmation
from reconciler.ports import Clock, Inventory
from reconciler.quota.owned import Pair
from reconciler.quota.policy import DriftMode, Policy
from reconciler.quota.report import Pass
from reconciler.quota.vigil import Vigil
from reconciler.reconcile import Orders, Ports, observe
from reconciler.reconcile.drift import as_applied, look

if TYPE_CHECKING:
    from reconciler.metrics import Metrics

LOCKED_SECONDS: Final = 10.0
"""How long an apply may hold the records before a look counts as failed."""

_LOCKED_PAUSE: Final = 0.5
_FIRST_RETRY: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How to look, as it was typed.

    Attributes:
        interval: Seconds between looks; ``None`` = as the cluster's configuration says.
        confirm_after: Looks in a row that make drift worth telling.
        correct: Whether confirmed drift is written over.
        read_only: Whether even the records stay untouched.
    """

    interval: float | None
    confirm_after: int
    correct: bool
    read_only: bool

    def __post_init__(self) -> None:
        if self.correct and self.read_only:
            raise UsageError("--correct-drift writes, and --read-only forbids it")


class Lookout:
    """One cluster and everything that is remembered of it.

    Args:
        console: Where words go.
        target: The cluster.
        watching: How to look.
        clock: Time.
        heard: Told of every look, in turn; waited for.
        metrics: What is counted, if anybody asks.

    Attributes:
        name: What the cluster is called.
        interval: Seconds between looks.
        last: The newest look; ``None`` = none yet.
        since: When the look that is under way began, in seconds since the epoch.

    Raises:
        UsageError: Corrections were asked for, and the cluster's configuration does not allow them.
    """

    def __init__(
        self,
        console: Console,
        target: Target,
        watching: Watching,
        *,
        clock: Clock,
        heard: Callable[[Pass], Awaitable[None]],
        metrics: "Metrics | None",
    ) -> None:
        self.name = target.shown
        self.interval = watching.interval or target.settings.interval
        self.last: Pass | None = None
        self.since: float | None = None
        self._console, self._target, self._watching = console, target, watching
        self._clock, self._heard, self._metrics = clock, heard, metrics
        self._orders = _orders(target, watching)
        self._client: QuotaClient | None = None
        self._passes = Passes(
            self.name,
            clock=clock,
            window=RemovalWindow(MemoryRemovals(), seconds=target.settings.guard_window),
            vigil=Vigil(confirm_after=watching.confirm_after),
        )
        if metrics is not None:
            metrics.interval(self.name, self.interval)

    def rhythm(self) -> Pace:
        """The rhythm of the loop: failures are tried again sooner than the next look would come, never later."""
        first = min(_FIRST_RETRY, self.interval)
        return Pace(
            interval=self.interval, gap=first / 2, first_retry=first, last_retry=self.interval
        )

    async def turn(self, _: Wake) -> Turn:
        """One look with everything that follows from it; the work of a ``ClusterLoop``."""
        self.since = self._clock.now()
        try:
            made = await self._looked()
        finally:
            self.since = None
        self.last = made
        if self._metrics is not None:
            self._metrics.passed(made)
        if made.error is not None:
            # A login that was refused is final for a client, and the secret may be another one by now.
            await self.close()
            return Turn(retry=made.error.retriable, note=made.error.message)
        await self._heard(made)
        return Turn(confirm=needs_confirmation(made))

    async def close(self) -> None:
        """Give the connections back."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _looked(self) -> Pass:
        """One look; while somebody applies, the records are his for some seconds, and that is no failure of ours."""
        started = self._clock.now()
        while True:
            try:
                made = await self._one_look()
            except KquotaError as error:
                made = Pass(
                    cluster=self.name,
                    error=error,
                    sightings=self._passes.vigil.sightings,
                    started_at=started,
                    ended_at=self._clock.now(),
                )
            waited = self._clock.now() - started
            if not isinstance(made.error, InventoryLocked) or waited >= LOCKED_SECONDS:
                return made
            await self._clock.sleep(_LOCKED_PAUSE)

    async def _one_look(self) -> Pass:
        if self._watching.read_only:
            return await self._look(self._ports(read_only_inventory(self._target, self._clock)))
        with opened(self._target, self._clock, command="drift --watch") as inventory:
            ports = self._ports(inventory)
            made = await self._look(ports)
            if not self._watching.correct or made.preview is None or made.error is not None:
                return made
            incorrect = frozenset((one.entity, one.key) for one in made.preview.plan.drift)
            incorrect |= {one.pair for one in made.expired_overrides}
            return await self._corrected(ports, incorrect) if incorrect else made

    async def _look(self, ports: Ports) -> Pass:
        notes = not self._watching.read_only
        made = await look(ports, self._orders, cluster=self.name, notes=notes)
        # Drift that is to be corrected is counted by the pass that does it: once a look, not twice.
        corrects = made.preview and (made.preview.plan.drift or made.expired_overrides)
        counted = not (self._watching.correct and corrects)
        if made.error is None and made.preview is not None and counted:
            self._passes.vigil = self._passes.vigil.after(
                made.preview.plan, now=made.started_at, first_seen=made.drift_since
            )
        return replace(made, sightings=self._passes.vigil.sightings)

    async def _corrected(self, ports: Ports, pairs: frozenset[Pair]) -> Pass:
        """Another pass, which may write these pairs and nothing else."""
        orders = replace(
            self._orders,
            rules=replace(self._orders.rules, policy=Policy.UPSERT, drift=DriftMode.CORRECT),
            guards=self._target.settings.guards,
            only=lambda subject, key: (subject, key) in pairs,
        )
        desired = as_applied(await observe(ports, self._orders))
        return await self._passes.run(ports, orders, desired)

    def _ports(self, inventory: Inventory) -> Ports:
        if self._client is None:
            config = self._target.client_config(self._console)
            events = telling(self._console)

            def answered(event: ResponseReceived) -> None:
                events.response(event)
                self._answered(event)

            self._client = QuotaClient(config, events=replace(events, response=answered))
        return Ports(
            store=self._client,
            inventory=inventory,
            clock=self._clock,
            audit=FileAuditLog(
                own_path(self._target.root, self._target.chosen.audit_log, what="audit logs")
            )
            if self._watching.correct
            else None,
            validator=by_rules,
        )

    def _answered(self, event: ResponseReceived) -> None:
        if self._metrics is not None:
            self._metrics.kafka(self.name, event.api, event.seconds)


def unready(lookouts: Sequence[Lookout]) -> list[str]:
    """What readiness probes are told: clusters that were not looked at, or not with success the last time."""
    return [
        f"{one.name}: {'not looked at yet' if one.last is None else 'the last look failed'}"
        for one in lookouts
        if one.last is None or one.last.error is not None
    ]


def stuck(lookouts: Sequence[Lookout], now: float) -> list[str]:
    """What liveness probes are told: looks that last ten intervals, and a quarter of an hour at least."""
    return [
        f"{one.name}: a look lasts too long"
        for one in lookouts
        if one.since is not None and now - one.since > max(10 * one.interval, 900.0)
    ]


def _orders(target: Target, watching: Watching) -> Orders:
    settings = target.settings
    allowed = settings.policy in {Policy.UPSERT, Policy.SYNC} and not settings.suspend
    if watching.correct and not allowed:
        why = "it is suspended" if settings.suspend else f"its policy is {settings.policy}"
        raise UsageError(
            f"{target.shown} may not be corrected: {why}",
            hint="leave out --correct-drift, or change the project file where it is reviewed",
        )
    return Orders(
        rules=settings.rules(policy=Policy.OBSERVE, drift=DriftMode.WARN),
        expected_cluster_id=settings.expected_cluster_id,
        assess=False,
        origin=origin_of(target),
    )
