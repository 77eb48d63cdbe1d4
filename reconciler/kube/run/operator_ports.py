"""What an operator process has of the world around it, besides the API server: watches, the Lease, the audit log.

:func:`process_ports` gives those of a real process. A simulated world gives others and runs the same operator.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from reconciler.base.protocols import Clock
from reconciler.inventory.audit_log import StreamAuditLog
from reconciler.kube.leadership.election import ElectionSettings
from reconciler.kube.leadership.lease_thread import Connect, LeaseThread
from reconciler.kube.leadership.watchdog import Watchdog
from reconciler.kube.run.leader_store import KafkaWrites
from reconciler.kube.watch import kopf_watcher
from reconciler.kube.watch.event_buffer import Taken
from reconciler.ports import AuditLog


class Candidate(Protocol):
    """A candidate for the Lease, then perhaps the leader, once. Implemented by ``lease_thread.LeaseThread``.

    Attributes:
        elected: Set when we lead; never cleared.
        leadership_lost: Set when we led and must end at once; never cleared.
    """

    elected: asyncio.Event
    leadership_lost: asyncio.Event

    @property
    def leading(self) -> bool:
        """Whether we lead for certain, right now."""
        ...

    @property
    def certain_until(self) -> float | None:
        """Until when (monotonic seconds) we lead if nothing is renewed; ``None`` = we do not lead."""
        ...

    @property
    def fenced(self) -> bool:
        """Whether a write of the one before may still land."""
        ...

    async def run(self, resign: asyncio.Event) -> None:
        """Stand by, lead, and give the Lease back when ``resign`` is set."""
        ...


class Watch(Protocol):
    """Delivers watch events. Implemented by ``kopf_watcher.watch``."""

    def __call__(
        self,
        kinds: Mapping[tuple[str, str, str], Taken],
        *,
        namespaces: Sequence[str],
        stop: asyncio.Event,
    ) -> Coroutine[Any, Any, None]:
        """Watch kinds (group, version, plural) in namespaces (empty = all) until ``stop`` is set."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPorts:
    """See the module.

    Attributes:
        watch: Delivers watch events.
        candidate: Makes the candidate for the Lease; its second argument is called with whether we lead.
        watchdog: Ends the process, within the context, once ``certain_until`` is over.
        audit: Receives what is intended and what came of it.
        writes: Counts the writes to Kafka that are under way.
    """

    watch: Watch
    candidate: Callable[[ElectionSettings, Callable[[bool], None]], Candidate]
    watchdog: Callable[[Callable[[], float | None]], AbstractContextManager[object]]
    audit: AuditLog
    writes: KafkaWrites = field(default_factory=KafkaWrites)


def process_ports(connect: Connect, *, clock: Clock) -> OperatorPorts:
    """The ports of a real process.

    Args:
        connect: Makes a connection for the Lease alone: it waits for no other request.
        clock: Time.
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
