"""Which broker next: known nodes, their failures and when each may be dialed again. Values in, choices out.

A node that failed waits 50 ms to 1 s (doubling, ±20 %) before it is dialed again, and the others come first.
When every known node has failed, or nothing was heard for ``rebootstrap_seconds``, the known nodes are given up
and the bootstrap addresses are asked anew (KIP-899, KIP-1102).
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.client.client_config import Address, ClientConfig
from reconciler.quota.cluster import Node


@dataclass(slots=True)
class _AddressFailures:
    """What happened at one address since it last worked."""

    failures: int = 0
    not_before: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DialChoice:
    """Whom to dial.

    Attributes:
        addresses: All may be tried at once; whichever connects first is used.
        wait: Seconds to wait before.
        setup_seconds: How long setting up may take.
    """

    addresses: tuple[Address, ...]
    wait: float
    setup_seconds: float


class Nodes:
    """The client's picture of the cluster's addresses."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._nodes_by_id: dict[int, Node] = {}
        self._failures_by_address: dict[Address, _AddressFailures] = {}
        self._last_contact_at = 0.0

    @property
    def brokers(self) -> tuple[Node, ...]:
        """Brokers of the last Metadata, sorted by id."""
        return tuple(self._nodes_by_id[number] for number in sorted(self._nodes_by_id))

    def learn(self, nodes: Iterable[Node], now: float) -> None:
        """Metadata has answered."""
        self._nodes_by_id = {node.id: node for node in nodes}
        self._last_contact_at = now

    def record_success(self, address: Address, now: float) -> None:
        """An address works."""
        _ = self._failures_by_address.pop(address, None)
        self._last_contact_at = now

    def failed(self, addresses: Iterable[Address], now: float) -> None:
        """Addresses did not work, or a connection to them broke."""
        for address in addresses:
            past = self._failures_by_address.setdefault(address, _AddressFailures())
            past.failures += 1
            past.not_before = now + self._config.reconnect.pause(past.failures, random.random)

    def forget(self) -> None:
        """Begin anew at the bootstrap addresses."""
        self._nodes_by_id = {}

    def id_of(self, address: Address) -> int | None:
        """The broker that advertises this address."""
        return next(
            (node.id for node in self._nodes_by_id.values() if address_of(node) == address), None
        )

    def address(self, number: int) -> Address | None:
        """Where a broker advertises itself."""
        node = self._nodes_by_id.get(number)
        return None if node is None else address_of(node)

    def must_rebootstrap(self, now: float) -> str:
        """Why the known nodes are to be given up; "" if they are not."""
        if not self._config.rebootstrap or not self._nodes_by_id:
            return ""
        if all(self._failures(address_of(node)) for node in self._nodes_by_id.values()):
            return "every known broker failed"
        if (
            self._config.rebootstrap_seconds
            and now - self._last_contact_at > self._config.rebootstrap_seconds
        ):
            return f"nothing was heard for {self._config.rebootstrap_seconds:g} s"
        return ""

    def choose(self, now: float) -> DialChoice:
        """Any broker: those without failures first, in random order."""
        if not self._nodes_by_id:
            return self._best(self._config.bootstrap, now, together=True)
        return self._best(
            [address_of(node) for node in self._nodes_by_id.values()], now, together=False
        )

    def choose_node(self, address: Address, now: float) -> DialChoice:
        """This very broker."""
        return self._best([address], now, together=False)

    def _best(self, addresses: Iterable[Address], now: float, *, together: bool) -> DialChoice:
        shuffled = list(addresses)
        random.shuffle(shuffled)
        ready = [address for address in shuffled if self._not_before(address) <= now]
        if not ready:
            first = min(shuffled, key=self._not_before)
            ready, wait = [first], self._not_before(first) - now
        else:
            wait = 0.0
        fewest = min(self._failures(address) for address in ready)
        best = [address for address in ready if self._failures(address) == fewest]
        return DialChoice(
            addresses=tuple(best if together else best[:1]),
            wait=wait,
            setup_seconds=self._config.setup.pause(fewest + 1, random.random),
        )

    def _failures(self, address: Address) -> int:
        past = self._failures_by_address.get(address)
        return 0 if past is None else past.failures

    def _not_before(self, address: Address) -> float:
        past = self._failures_by_address.get(address)
        return 0.0 if past is None else past.not_before


def address_of(node: Node) -> Address:
    """Where a broker advertises itself."""
    return Address(host=node.host, port=node.port)
