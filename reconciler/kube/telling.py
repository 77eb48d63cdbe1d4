"""After a pass: statuses, records, finalizers and events, in the order in which a crash between two of them does least harm.

Statuses first, because they hold the records; then shards and ledger, which forget what a status now holds; then
finalizers, because an object that goes takes its status along; then the QuotaCluster.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from reconciler.errors import InventoryError, KquotaError
from reconciler.kube import finalizers
from reconciler.kube.budget_wait import waited_for_budget
from reconciler.kube.cluster_state import cluster_status
from reconciler.kube.comparing import unchanged
from reconciler.kube.events import (
    Happening,
    cluster_transitions,
    released,
    released_more,
    transitions,
)
from reconciler.kube.found import Found, next_sync, report_for, spoken_of, token, was_leaving
from reconciler.kube.inventory import KubeInventory
from reconciler.kube.resources import (
    Obj,
    deletion_requested_at,
    has_finalizer,
    is_terminating,
    status_of,
)
from reconciler.kube.standing import Standing
from reconciler.kube.status import GRACE_SECONDS, document_status, pending_status, told
from reconciler.kube.writes import Writes
from reconciler.ports import Clock
from reconciler.quota.policy import Policy
from reconciler.quota.report import Pass

_LOG: Final = logging.getLogger("reconciler.kube")

MOST_EVENTS: Final = 100
"""Events of one pass: beyond that they say what the QuotaCluster's counts say better."""


GAVE_UP: Final = "they could not be removed within the deletion timeout"


class Telling:
    """Tells of the passes over one cluster.

    Args:
        name: Of the QuotaCluster.
        writes: The way to the API server.
        inventory: The records.
        clock: Time.
        deletion_timeout: How many seconds a finalizer may hold a document that is being deleted.
    """

    def __init__(
        self,
        name: str,
        *,
        writes: Writes,
        inventory: KubeInventory,
        clock: Clock,
        deletion_timeout: float,
    ) -> None:
        self._name, self._writes, self._inventory, self._clock = name, writes, inventory, clock
        self._deletion_timeout = deletion_timeout
        # Documents whose status was worked out by a pass that had nothing to say of them, and from what.
        self._quiet: dict[str, tuple[object, ...]] = {}
        self._failing_since: float | None = None
        # When documents on their way out waited for a removal budget last: their timeout begins after that.
        self._waited: Mapping[str, float] = {}

    async def pending(self, standings: Mapping[str, Standing]) -> None:
        """Documents without any status say that they wait."""
        now = self._clock.now()
        _ = await self._writes.statuses(
            (one.obj, pending_status(one, now=now))
            for one in standings.values()
            if not status_of(one.obj).get("conditions")
        )

    async def tell(self, found: Found, *, everything: bool) -> str:
        """Write whatever changed.

        Args:
            found: What the pass left.
            everything: Look at every document, whether or not the pass spoke of it.

        Returns:
            What could not be done yet and has to be tried again, in a sentence; "" = nothing.

        Raises:
            KquotaError: The records could not be written; the QuotaCluster says so.
        """
        try:
            return await self._tell(found, everything=everything)
        except KquotaError as error:
            failed = replace(found.report, error=found.report.error or error)
            await self._cluster(replace(found, report=failed), {})
            raise

    async def _tell(self, found: Found, *, everything: bool) -> str:
        leaving = {
            document: obj
            for document, obj in found.documents.items()
            # Who is on his way out only since the pass was begun is the next one's.
            if is_terminating(obj) and has_finalizer(obj) and was_leaving(found, document)
        }
        held, gave_up = await self._held_back(leaving, found)
        await self._left_elsewhere(found, leaving)
        happened: list[tuple[Obj, Happening]] = []
        unsaved = await self._statuses(found, held, happened, everything=everything)
        released = {document: obj for document, obj in leaving.items() if document not in held}
        await self._inventory.flush(
            live=[one for one in found.documents if one not in released],
            complete=found.report.preview is not None and found.report.preview.plan.complete,
        )
        stuck = await self._finalizers(found, released)
        await self._cluster(found, gave_up)
        if found.report.error is None:
            await self._writes.events(happened[:MOST_EVENTS], otherwise=found.obj)
        return _left(found, unsaved, stuck, held)

    def _outage(self, report: Pass) -> float:
        """For how many seconds passes have failed."""
        if report.error is None:
            self._failing_since = None
            return 0.0
        if self._failing_since is None:
            self._failing_since = report.started_at
        return self._clock.now() - self._failing_since

    async def _held_back(
        self, leaving: Mapping[str, Obj], found: Found
    ) -> tuple[frozenset[str], Mapping[str, int]]:
        """Documents that have to wait for a removal; and those that waited too long, whose quotas stay."""
        if not found.records_known:
            return frozenset(leaving), {}
        now, owned = self._clock.now(), self._inventory.owned
        held = dict(finalizers.holds_back(leaving, owned, found.report))
        # Another cluster answers, or is meant, than the one that they were applied to.
        legible = {one: obj for one, obj in leaving.items() if one not in found.unreadable}
        strange = finalizers.applied_elsewhere(legible, owned.cluster_id)
        if found.report.error is not None:
            held |= {
                document: pairs for _, some in strange.items() for document, pairs in some.items()
            }
        for document in leaving.keys() & found.unreadable.keys():
            # Somebody may mend its status yet; if nobody does, its quotas stay.
            _ = held.setdefault(document, set())
        self._waited = waited_for_budget(leaving, held, found.report, self._waited, now=now)
        late = {
            document
            for document in held
            if now
            - max(deletion_requested_at(leaving[document]) or now, self._waited.get(document, 0.0))
            >= self._deletion_timeout
        }
        waiting = frozenset(held).difference(late)
        for cluster_id, some in strange.items():
            await self._inventory.leave_behind(
                cluster_id, [leaving[one] for one in some if one not in waiting]
            )
        ours = late.difference(*strange.values())
        if ours:
            given_up = [
                one for document in ours for one in finalizers.given_up(held[document], owned)
            ]
            await self._inventory.write(owned.cluster_id, given_up)
        return waiting, {one: len(held[one]) for one in sorted(late)}

    async def _left_elsewhere(self, found: Found, leaving: Mapping[str, Obj]) -> None:
        """Keep what statuses record of another cluster, before they speak of this one instead."""
        if found.report.preview is None:
            return
        staying = {
            document: one.obj
            for document, one in found.standings.items()
            if document not in leaving and document not in found.unreadable
        }
        elsewhere = finalizers.applied_elsewhere(staying, self._inventory.owned.cluster_id)
        for cluster_id, some in elsewhere.items():
            try:
                await self._inventory.leave_behind(cluster_id, [staying[one] for one in some])
            except InventoryError as error:
                _LOG.warning("what was applied to cluster %s is forgotten: %s", cluster_id, error)

    async def _statuses(
        self,
        found: Found,
        held: frozenset[str],
        happened: list[tuple[Obj, Happening]],
        *,
        everything: bool,
    ) -> set[str]:
        """Write the statuses that changed; the documents whose status could not be written."""
        quiet: dict[str, tuple[object, ...]] = {}
        failed = await self._writes.statuses(
            self._changed(found, held, happened, quiet, everything=everything)
        )
        told()
        self._quiet = {name: token for name, token in quiet.items() if name not in failed}
        return failed

    def _changed(
        self,
        found: Found,
        held: frozenset[str],
        happened: list[tuple[Obj, Happening]],
        quiet: dict[str, tuple[object, ...]],
        *,
        everything: bool,
    ) -> Iterator[tuple[Obj, Mapping[str, Any]]]:
        """Documents whose status is another one now, one at a time: five thousand of them fill no memory."""
        now = self._clock.now()
        named = spoken_of(found)
        outage = self._outage(found.report)
        for document, one in found.standings.items():
            if is_terminating(one.obj) and document not in held:
                continue
            made_from = (*token(one, found), outage >= GRACE_SECONDS)
            if document not in named:
                quiet[document] = made_from
                if not everything and self._quiet.get(document) == made_from:
                    continue
            before = status_of(one.obj)
            after = document_status(
                one,
                settled=found.settled,
                report=report_for(document, found),
                owned=self._inventory.owned,
                previous=before,
                now=now,
                outage=outage,
            )
            if not unchanged(before, after):
                if len(happened) < MOST_EVENTS:
                    happened.extend((one.obj, each) for each in transitions(before, after))
                yield one.obj, after

    async def _finalizers(self, found: Found, released: Mapping[str, Obj]) -> set[str]:
        """Take our finalizer off what is released, and off what no longer needs it."""
        unneeded = [
            one.obj
            for one in found.standings.values()
            if one.claim is not None
            and found.rules.in_force in {Policy.UPSERT, Policy.SYNC}
            and not is_terminating(one.obj)
            and has_finalizer(one.obj)
            and not finalizers.deletion_has_effect(
                one.claim.declaration.deletion_policy, found.rules.in_force
            )
        ]
        return await self._writes.patches(
            (obj, finalizers.removing(obj)) for obj in (*released.values(), *unneeded)
        )

    async def _cluster(self, found: Found, gave_up: Mapping[str, int]) -> None:
        before = status_of(found.obj)
        after = cluster_status(
            found.obj,
            report=found.report,
            settled=found.settled,
            owned=self._inventory.owned,
            documents=len(found.documents),
            previous=before,
            now=self._clock.now(),
            next_sync=next_sync(found),
            behaves_as=found.behaves_as,
            secret=found.secret,
        )
        events = [
            *cluster_transitions(before, after),
            *_releases(gave_up),
        ]
        if not unchanged(before, after):
            _ = await self._writes.cluster_status(found.obj, after)
        await self._writes.events(((found.obj, one) for one in events), otherwise=None)


def _releases(gave_up: Mapping[str, int]) -> Iterator[Happening]:
    """One event per document, up to a number: a namespace may have held thousands."""
    told = list(gave_up.items())
    for document, count in told[:MOST_EVENTS]:
        yield released(document, count, GAVE_UP)
    if more := told[MOST_EVENTS:]:
        yield released_more(len(more), sum(count for _, count in more), GAVE_UP)


def _left(found: Found, unsaved: set[str], stuck: set[str], held: frozenset[str]) -> str:
    parts = []
    if found.unheld:
        parts.append(f"{len(found.unheld)} documents could not be given our finalizer")
    if unsaved:
        parts.append(f"{len(unsaved)} statuses could not be written")
    if stuck:
        parts.append(f"{len(stuck)} finalizers could not be removed")
    if held:
        parts.append(f"{len(held)} deleted documents wait for their quotas to be removed")
    outcome = found.report.outcome
    if outcome is not None and not outcome.complete:
        parts.append(outcome.failure or "not every change was applied and seen")
    return "; ".join(parts)
