"""One pass over one Kafka cluster as the operator makes it: listing, records, finalizers, the pass, and what it leaves to tell.

The loop calls it, one call at a time. Everything is compared on each call; why it was called only decides how much is
listed and written again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeVar

from reconciler.errors import ConfigError, InventoryLocked, KquotaError
from reconciler.kube import finalizers
from reconciler.kube.cache import Cache
from reconciler.kube.cluster_state import SecretUse
from reconciler.kube.found import Found
from reconciler.kube.inventory import KubeInventory
from reconciler.kube.records import entity_of
from reconciler.kube.removals import might_remove
from reconciler.kube.resources import (
    FINALIZER_FIELDS,
    Obj,
    deletion_requested_at,
    few_finalizers,
    generation_of,
    has_finalizer,
    is_terminating,
    requested_at,
    status_of,
    uid_of,
)
from reconciler.kube.settings import Settings
from reconciler.kube.standing import Standing, cluster_problems, gather, grounds_of, stand
from reconciler.kube.telling import Telling
from reconciler.kube.writes import Writes
from reconciler.loop import Passes, Turn, Wake
from reconciler.loop.turns import needs_confirmation
from reconciler.manifest.cluster import QuotaCluster, from_spec
from reconciler.ports import AuditLog, Clock, QuotaStore
from reconciler.quota.change import Plan
from reconciler.quota.claims import Settled
from reconciler.quota.owned import Owned
from reconciler.quota.policy import Policy, Rules
from reconciler.quota.report import Origin, Pass
from reconciler.reconcile import Orders, Ports, Validation

PENDING_AFTER_SECONDS: Final = 10.0
"""A pass that takes longer lets documents without any status say that they are pending."""

HOLDING_TRIES: Final = 4
"""So often documents are looked through for some that need our finalizer; others may come while it is put on."""

_T = TypeVar("_T")


class Sessions(Protocol):
    """Connected clients by cluster. Implemented by ``session.SessionKeeper``."""

    async def for_(self, cluster: QuotaCluster) -> QuotaStore:
        """A client with the newest credentials that work.

        Raises:
            KquotaError: There is none.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the clusters of one operator share.

    Attributes:
        settings: As started.
        cache: What was seen.
        list_everything: Lists every watched namespace into the cache; whether nothing is missing.
        sessions: Clients.
        writes: The way to statuses, finalizers and events.
        clock: Time.
        audit: Where applies are noted.
        refuses_removals: ``refuses_removals(name, plan)``: why no removal of a plan may be made now; "" = nothing is against it.
        fenced: Whether writes of an earlier leader may still land.
        looks_after: ``looks_after(cluster id, name)``: the name of the QuotaCluster that looks after a Kafka cluster.
        secret_of: The credentials of a cluster's session, for its status.
        passed: Told of each pass and of how many limits are asked for twice, for metrics.
    """

    settings: Settings
    cache: Cache
    list_everything: Callable[[], Awaitable[bool]]
    sessions: Sessions
    writes: Writes
    clock: Clock
    audit: AuditLog
    refuses_removals: Callable[[str, Plan], Awaitable[str]]
    fenced: Callable[[], bool]
    looks_after: Callable[[str, str], str]
    secret_of: Callable[[str], SecretUse | None]
    passed: Callable[[Pass, int], None]


class ClusterWork:
    """The work of one cluster's loop.

    Args:
        name: Of the QuotaCluster.
        around: What all clusters share.
        inventory: The records of this cluster.
        passes: Runs passes and remembers the ones before.
    """

    def __init__(
        self, name: str, around: Surroundings, *, inventory: KubeInventory, passes: Passes
    ) -> None:
        self._name, self._around = name, around
        self._inventory, self._passes = inventory, passes
        self._known: dict[str, tuple[tuple[object, ...], Standing]] = {}
        # Of the pass under way: the QuotaCluster's generation, and whether the records could be read; None = not tried.
        self._generation = 0
        self._records_known: bool | None = None
        self._telling = Telling(
            name,
            writes=around.writes,
            inventory=inventory,
            clock=around.clock,
            deletion_timeout=around.settings.deletion_timeout,
        )

    async def __call__(self, wake: Wake) -> Turn:
        """One pass; what a cluster, a document or the API server did wrong is told in statuses.

        Raises:
            KquotaError: The records could not be read or written; the loop tries again.
        """
        obj = self._around.cache.clusters.get(self._name)
        if obj is None:
            return Turn(note="there is no such QuotaCluster any more")
        found = await self._look(obj, wake)
        lost = {pair for pairs in found.settled.losses.values() for pair in pairs}
        self._around.passed(found.report, len(lost))
        left = await self._telling.tell(found, everything=wake.resync)
        error = found.report.error
        if error is not None:
            return Turn(retry=error.retriable, note=str(error))
        # While writes of an earlier leader may land nothing is confirmed.
        confirm = not self._around.fenced() and needs_confirmation(found.report)
        return Turn(retry=bool(left), note=left, confirm=confirm)

    async def _look(self, obj: Obj, wake: Wake) -> Found:
        """Everything up to the end of the pass."""
        started = self._around.clock.now()
        cluster: QuotaCluster | None = None
        rules = Rules(policy=Policy.OBSERVE)
        behaves_as = ""
        taken: Mapping[str, Standing] | None = None
        unheld: frozenset[str] = frozenset()
        self._generation, self._records_known = generation_of(obj), None
        try:
            cluster = self._configured(obj)
            self._passes.window.resize(cluster.guard_window)
            store = await self._patiently(cluster, self._around.sessions.for_(cluster))
            answering = await self._patiently(cluster, store.cluster())
            behaves_as = answering.behaves_as
            self._alone(answering.id)
            expected = cluster.expected_cluster_id or _pinned(obj) or answering.id
            owned = await self._read_records(expected, cluster)
            complete = await self._complete(wake, owned, cluster)
            if complete:
                owned = self._inventory.seen_again()
            orders = self._orders(cluster, expected, complete=complete)
            rules = orders.rules
            taken, unheld = await self._hold(cluster, rules)
            settled = self._gathered(taken, unheld)
            ports = Ports(
                store=store,
                inventory=self._inventory,
                clock=self._around.clock,
                audit=self._around.audit,
            )
            report = await self._patiently(
                cluster,
                self._passes.run(
                    ports,
                    orders,
                    settled.desired,
                    counts_drift=not self._around.fenced(),
                    refuses_removals=partial(self._around.refuses_removals, self._name),
                ),
            )
        except KquotaError as error:
            ended = self._around.clock.now()
            report = Pass(cluster=self._name, error=error, started_at=started, ended_at=ended)
            await self._read_records_of(_known_id(obj, cluster), cluster)
        if taken is not None:
            standings = self._as_compared(taken)
        else:
            standings = self._unusable() if cluster is None else self._standings(cluster)
        return Found(
            obj=as_compared(obj, self._around.cache.clusters.get(self._name, obj)),
            cluster=cluster,
            rules=rules,
            report=report,
            settled=self._gathered(standings, unheld),
            standings=standings,
            unheld=unheld,
            unreadable=self._inventory.unreadable,
            records_known=self._records_known is not False,
            documents=self._around.cache.of(self._name),
            behaves_as=behaves_as,
            secret=self._around.secret_of(self._name),
        )

    # ---- the words of it ---------------------------------------------------------------------

    async def _read_records(self, cluster_id: str, cluster: QuotaCluster | None) -> Owned:
        self._records_known = False
        owned = await self._inventory.refresh(cluster_id, cluster)
        self._records_known = True
        return owned

    async def _read_records_of(self, cluster_id: str | None, cluster: QuotaCluster | None) -> None:
        """The records, where Kafka does not answer: without them nobody may be let go."""
        if self._records_known is not None:
            return
        self._records_known = True
        if cluster_id is not None:  # Else no cluster ever answered, and nothing was applied.
            with contextlib.suppress(KquotaError):  # Why the pass ended is more telling.
                _ = await self._read_records(cluster_id, cluster)

    def _as_compared(self, taken: Mapping[str, Standing]) -> Mapping[str, Standing]:
        """The documents as the pass knew them, with the statuses that they have by now; those that are gone left out.

        What came, changed or was deleted meanwhile is the next pass's: to say that it is in order would be a lie, and
        to release it would leave behind what was to be removed.
        """
        present = self._around.cache.of(self._name)
        return {
            document: replace(one, obj=as_compared(one.obj, present[document]))
            for document, one in taken.items()
            if document in present and uid_of(present[document]) == uid_of(one.obj)
        }

    def _gathered(self, standings: Mapping[str, Standing], unheld: frozenset[str]) -> Settled:
        """What all documents together ask for; what a status that cannot be read may own is asked for by nobody."""
        unreadable, holding_up = self._inventory.unreadable, self._inventory.holding_up
        subjects = (entity_of(one.obj) for name, one in standings.items() if name in holding_up)
        return gather(
            standings.values(),
            self._inventory.owned,
            waiting=unheld | unreadable.keys(),
            untouched={one for one in subjects if one is not None},
        )

    def _configured(self, obj: Obj) -> QuotaCluster:
        problems = cluster_problems(obj, allow_references=self._around.settings.allow_references)
        if problems:
            raise ConfigError(
                f"QuotaCluster {self._name} cannot be used: {'; '.join(problems)}",
                hint="correct its spec",
            )
        return from_spec(self._name, obj["spec"])

    def _alone(self, cluster_id: str) -> None:
        first = self._around.looks_after(cluster_id, self._name)
        if first != self._name:
            raise InventoryLocked(
                f"Kafka cluster {cluster_id} is looked after by another QuotaCluster already",
                hint="delete one of the two: they would fight over every limit",
            )

    def _orders(self, cluster: QuotaCluster, expected: str, *, complete: bool) -> Orders:
        rules = cluster.rules(complete=complete)
        if self._around.settings.namespaces or self._inventory.holding_up:
            # To remove what nobody declared one has to have seen every namespace, and read every record.
            rules = replace(rules, exclusive=False)
        return Orders(
            rules=rules,
            # Somebody who deletes the last document means it; documents that are just not there are another thing.
            guards=replace(cluster.guards, allow_empty=self._is_leaving()),
            expected_cluster_id=expected,
            validation=Validation.NONE,
            assess=False,
            origin=Origin(who=f"operator {self._around.settings.identity}", cluster=self._name),
        )

    def _is_leaving(self) -> bool:
        return any(is_terminating(one) for one in self._around.cache.of(self._name).values())

    def _standings(self, cluster: QuotaCluster) -> Mapping[str, Standing]:
        """What each document may ask for; worked out again only where it or the cluster changed."""
        generation = self._generation
        known: dict[str, tuple[tuple[object, ...], Standing]] = {}
        for document, obj in self._around.cache.of(self._name).items():
            token = (*grounds_of(obj), generation)
            earlier = self._known.get(document)
            if earlier is None or earlier[0] != token:
                known[document] = token, stand(obj, {self._name: cluster})
            elif earlier[1].obj is not obj:
                known[document] = token, replace(earlier[1], obj=obj)
            else:
                known[document] = earlier
        self._known = known
        return {document: standing for document, (_, standing) in known.items()}

    def _unusable(self) -> Mapping[str, Standing]:
        """The documents of a QuotaCluster that cannot be used: each says so and freezes what it owns."""
        return {
            document: stand(obj, {}, unusable={self._name})
            for document, obj in self._around.cache.of(self._name).items()
        }

    async def _complete(self, wake: Wake, owned: Owned, cluster: QuotaCluster) -> bool:
        """Whether removals may be made: only after a complete listing in this very pass.

        Listing costs ten requests for 5,000 documents, so it is done at resyncs and where something might be removed.
        """
        if not wake.resync and not might_remove(
            owned, gather(self._standings(cluster).values(), owned)
        ):
            return False
        return await self._around.list_everything()

    async def _hold(
        self, cluster: QuotaCluster, rules: Rules
    ) -> tuple[Mapping[str, Standing], frozenset[str]]:
        """Our finalizer on every document whose deletion will have an effect, before anything is sent for it.

        Returns:
            The documents of this pass: nobody is among them who came while others were held, and was not held. And
            those that could not be held: their deletion would go unseen, so nothing is written for them.
        """
        for left in reversed(range(HOLDING_TRIES)):
            standings = self._standings(cluster)
            needing = {
                document: one.obj
                for document, one in standings.items()
                if one.claim is not None
                and not has_finalizer(one.obj)
                and finalizers.deletion_has_effect(
                    one.claim.declaration.deletion_policy, rules.in_force
                )
            }
            if not needing or not left:
                return standings, frozenset(needing)
            _ = await self._around.writes.patches(
                (one, finalizers.adding(one)) for one in needing.values()
            )
        raise AssertionError("the last try returns")

    async def _patiently(self, cluster: QuotaCluster, work: Awaitable[_T]) -> _T:
        """The result of some work; meanwhile nobody is left without any status for long."""
        task = asyncio.ensure_future(work)
        try:
            done, _ = await asyncio.wait({task}, timeout=PENDING_AFTER_SECONDS)
            if not done:
                await self._telling.pending(self._standings(cluster))
            return await task
        finally:
            if not task.done():
                _ = task.cancel()
                _ = await asyncio.wait({task})


def _pinned(obj: Obj) -> str | None:
    """The id of the cluster that answered first: another one is not to be written to by mistake."""
    found = status_of(obj).get("clusterId")
    return found if isinstance(found, str) else None


def _known_id(obj: Obj, cluster: QuotaCluster | None) -> str | None:
    """The id of the cluster as far as it is known without asking."""
    return (cluster.expected_cluster_id if cluster is not None else None) or _pinned(obj)


def as_compared(before: Obj, now: Obj) -> Obj:
    """An object as a pass knew it, with the status and the finalizers that it has by now."""
    if before is now or _asked(before) == _asked(now):
        return now
    metadata = {key: one for key, one in before["metadata"].items() if key not in FINALIZER_FIELDS}
    metadata |= few_finalizers(now["metadata"])
    return {**before, "metadata": metadata, "status": status_of(now)}


def _asked(obj: Obj) -> tuple[object, ...]:
    """All that an object asks for."""
    return uid_of(obj), generation_of(obj), deletion_requested_at(obj), requested_at(obj)
