"""The ports of an operator process besides the API server: watches, the Lease, the audit log.

:func:`process_ports` returns those of a real process. A simulation passes others and runs the same operator.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from msgspec import Struct, field

from reconciler.base.protocols import Clock
from reconciler.inventory.audit_log import StreamAuditLog
from reconciler.kube.leadership.election import ElectionSettings
from reconciler.kube.leadership.lease_thread import Connect, LeaseThread
from reconciler.kube.leadership.watchdog import Watchdog
from reconciler.kube.records import record_store
from reconciler.kube.run.leader_store import KafkaWrites
from reconciler.kube.watch import kopf_watcher
from reconciler.kube.watch.kopf_watcher import EventHandler
from reconciler.ports import AuditLog


class Candidate(Protocol):
    """A candidate for the Lease that may become the leader once. Implemented by ``lease_thread.LeaseThread``."""

    elected: asyncio.Event  # set when this process leads; never cleared
    leadership_lost: asyncio.Event  # set when this process led and must end at once; never cleared

    @property
    def leading(self) -> bool:
        """Whether this process certainly leads now."""
        ...

    @property
    def certain_until(self) -> float | None:
        """Until when (monotonic seconds) this process leads without another renewal; ``None`` if it does not lead."""
        ...

    @property
    def fence_seconds(self) -> float:
        """Seconds for which writes of the previous leader may still take effect; 0 = none."""
        ...

    async def run(self, resign: asyncio.Event) -> None:
        """Stand by, lead, and release the Lease when ``resign`` is set."""
        ...


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
    candidate: Callable[[ElectionSettings, Callable[[bool], None]], Candidate]
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

    def candidate(election: ElectionSettings, report: Callable[[bool], None]) -> Candidate:
        return LeaseThread(
            connect, election, clock=clock, report=report, is_writing=writes.are_under_way
        )

    return OperatorPorts(
        watch=kopf_watcher.watch,
        candidate=candidate,
        watchdog=partial(Watchdog, clock=clock),
        audit=StreamAuditLog(sys.stdout),
        writes=writes,
    )
