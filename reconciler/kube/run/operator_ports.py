"""The ports of an operator process besides the API server: watches, the Lease, the audit log, and who may alter Kafka.

:func:`process_ports` returns those of a real process. A simulation passes others and runs the same operator.

Only a leader alters Kafka: the Lease is checked right before each alteration is sent. After a takeover, writes of the
old leader may take effect for 60 s (brokers retry forwarded requests): for 90 s differences are described again and
never counted as drift. Writes to Kubernetes carry the resource version of the object that they replace, so they need
no such check. Only a leader writes a status again after a conflict (``status.writer``).
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct, field

from reconciler.base.protocols import Clock, Progress
from reconciler.errors import LeaseLost
from reconciler.inventory.audit_log import StreamAuditLog
from reconciler.kube.leadership.election import Connect, ElectionSettings, Leader
from reconciler.kube.leadership.lease_thread import LeaseThread, Watchdog
from reconciler.kube.records import record_store
from reconciler.kube.watch import kopf_watcher
from reconciler.kube.watch.kopf_watcher import EventHandler
from reconciler.ports import AuditLog, ForwardingStore, QuotaStore
from reconciler.quota.entity import Entity
from reconciler.quota.state import Alteration, Result

Leads = Callable[[], bool]
"""Whether this process certainly holds the Lease now."""

DEPOSED: Final = "the Lease may have expired, so nothing was sent to Kafka"


class KafkaWrites:
    """Counts writes to Kafka in flight. Written by one event loop, read from any thread."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1

    def are_under_way(self) -> bool:
        """Whether a write is in flight."""
        return self.count > 0


class LeadingStore(ForwardingStore):
    """A store that refuses to alter unless this process certainly holds the Lease."""

    def __init__(self, store: QuotaStore, leads: Leads, writes: KafkaWrites) -> None:
        super().__init__(store)
        self._leads, self._writes = leads, writes

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        """Send alterations.

        Raises:
            LeaseLost: This process does not certainly hold the Lease; nothing was sent.
        """
        # Counted before the check: a reader that sees no write after the Lease expired can rely on the refusal.
        with self._writes:
            if not self._leads():
                raise LeaseLost(DEPOSED)
            return await self._store.alter(
                alterations, validate_only=validate_only, progress=progress, results=results
            )


class Watch(Protocol):
    """Delivers watch events. Implemented by ``kopf_watcher.watch``."""

    def __call__(
        self,
        kinds: Mapping[tuple[str, str, str], EventHandler],
        *,
        namespaces: Sequence[str],
        stop: asyncio.Event,
    ) -> Coroutine[Any, Any, None]:
        """Watch kinds (group, version, plural) in namespaces (empty = all) until ``stop`` is set."""
        ...


class OperatorPorts(Struct, frozen=True, kw_only=True):
    """The ports of an operator process."""

    watch: Watch  # delivers watch events
    # Creates the candidate for the Lease; its second argument is called with whether this process leads.
    candidate: Callable[[ElectionSettings, Callable[[bool], None]], Leader]
    # Within its context, ends the process once `certain_until` has passed.
    watchdog: Callable[[Callable[[], float | None]], AbstractContextManager[object]]
    audit: AuditLog  # receives intents and their outcomes
    writes: KafkaWrites = field(default_factory=KafkaWrites)  # counts the writes to Kafka in flight
    new_salt: Callable[[], str] = record_store.new_salt  # returns a salt for new parts of records


def process_ports(connect: Connect, *, clock: Clock) -> OperatorPorts:
    """Return the ports of a real process.

    Args:
        connect: Opens a connection for the Lease alone, so that it waits for no other request.
    """
    writes = KafkaWrites()

    return OperatorPorts(
        watch=kopf_watcher.watch,
        candidate=lambda election, report: LeaseThread(
            connect, election, clock=clock, report=report, is_writing=writes.are_under_way
        ),
        watchdog=partial(Watchdog, clock=clock),
        audit=StreamAuditLog(sys.stdout),
        writes=writes,
    )
