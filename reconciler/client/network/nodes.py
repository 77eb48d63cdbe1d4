"""Knows the brokers of a cluster from Metadata, and selects the next one by failures and times. No I/O.

A node that failed waits 50 ms to 1 s (doubling, ±20 %) before it is dialed again, and other nodes have priority.
If every known node has failed, or no response arrived for ``rebootstrap_seconds``, the known nodes are dropped
and the bootstrap addresses are used again (KIP-899, KIP-1102).
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from reconciler.client.client_config import Address, ClientConfig
from reconciler.client.network.requests import ClientRequest, ResponseStatus
from reconciler.errors import DecodeError, TooManyItems
from reconciler.quota.state import Node
from reconciler.wire.apis import METADATA
from reconciler.wire.messages import metadata

MAX_BROKERS: Final = 500
"""Maximum brokers of a cluster. One broker names the others, and each is connected to: it could name any address."""

MAX_CONNECTING: Final = 16
"""Connections that a client sets up at the same time; those to the other brokers wait."""


class _AddressFailures(Struct):
    """Failures of one address since its last success."""

    failures: int = 0
    not_before: float = 0.0
    cause: str = ""  # why the last attempt failed whose reason is known; "" = no reason is known


class DialChoice(Struct, frozen=True):
    """The addresses to dial next."""

    addresses: tuple[Address, ...]  # all may be tried at once; the first connection is used
    wait: float  # seconds to wait before
    setup_seconds: float  # timeout for setting up the connection


class Nodes:
    """The known addresses of the cluster."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._nodes_by_id: dict[int, Node] = {}
        self._failures_by_address = defaultdict[Address, _AddressFailures](_AddressFailures)
        self._last_contact_at = 0.0

    @property
    def brokers(self) -> tuple[Node, ...]:
        """Brokers of the last Metadata, sorted by id."""
        return tuple(self._nodes_by_id[number] for number in sorted(self._nodes_by_id))

    def learn(self, nodes: Iterable[Node], now: float) -> None:
        """Store the brokers of a Metadata response."""
        self._nodes_by_id = {node.id: node for node in nodes}
        self._last_contact_at = now

    def record_success(self, address: Address, now: float) -> None:
        """Record that an address works."""
        _ = self._failures_by_address.pop(address, None)
        self._last_contact_at = now

    def record_failure(self, addresses: Iterable[Address], now: float) -> None:
        """Record that addresses did not work, or that a connection to them was lost."""
        for address in addresses:
            past = self._failures_by_address[address]
            past.failures += 1
            past.not_before = now + self._config.reconnect.pause(past.failures, random.random)

    def note_cause(self, address: Address, cause: str) -> None:
        """Store why an address failed, until it works or fails for another reason."""
        self._failures_by_address[address].cause = cause

    def causes(self, number: int | None) -> list[str]:
        """Return the last known cause of each address of any broker, or of one, without those that worked since."""
        address = None if number is None else self.address(number)
        addresses = self._addresses() if address is None else [address]
        return [cause for at in addresses if (cause := self._failures_by_address[at].cause)]

    def forget(self) -> None:
        """Drop the known nodes, so that the bootstrap addresses are used."""
        self._nodes_by_id = {}

    def id_of(self, address: Address) -> int | None:
        """Return the id of the broker that advertises this address."""
        return next(
            (node.id for node in self._nodes_by_id.values() if address_of(node) == address), None
        )

    def address(self, number: int) -> Address | None:
        """Return the advertised address of a broker."""
        node = self._nodes_by_id.get(number)
        return None if node is None else address_of(node)

    def must_rebootstrap(self, now: float) -> str:
        """Return why the known nodes must be dropped; "" if not."""
        if not self._config.rebootstrap or not self._nodes_by_id:
            return ""
        if all(self._failures(address_of(node)) for node in self._nodes_by_id.values()):
            return "every known broker failed"
        if (
            self._config.rebootstrap_seconds
            and now - self._last_contact_at > self._config.rebootstrap_seconds
        ):
            return f"no data from the broker for {self._config.rebootstrap_seconds:g} s"
        return ""

    def choose(self, now: float) -> DialChoice:
        """Choose any broker: those without failures first, in random order."""
        return self._best(self._addresses(), now, together=not self._nodes_by_id)

    def choose_node(self, address: Address, now: float) -> DialChoice:
        """Choose this broker."""
        return self._best([address], now, together=False)

    def _addresses(self) -> Sequence[Address]:
        """Return the addresses of the known brokers, or of the configuration if none is known."""
        return [address_of(node) for node in self._nodes_by_id.values()] or self._config.bootstrap

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
        return self._failures_by_address[address].failures

    def _not_before(self, address: Address) -> float:
        return self._failures_by_address[address].not_before


def address_of(node: Node) -> Address:
    """Return the advertised address of a broker."""
    return Address(host=node.host, port=node.port)


class ClusterMetadata(Struct, frozen=True, kw_only=True):
    """The cluster as one broker describes it; after a successful response the id is never ""."""

    cluster_id: str
    nodes: tuple[Node, ...]
    error_code: int


def _decode(version: int, body: bytes) -> ClusterMetadata:
    answer = metadata.decode_response(version, body)
    if answer.error_code == 0 and not (answer.cluster_id and answer.brokers):
        raise DecodeError("Metadata names no cluster id or no broker", api=METADATA.name)
    if len(answer.brokers) > MAX_BROKERS:
        raise TooManyItems(
            f"Metadata names {len(answer.brokers)} brokers; a cluster may have {MAX_BROKERS}",
            hint="check bootstrap.servers",
        )
    nodes = (
        Node(id=broker.node_id, host=broker.host, port=broker.port) for broker in answer.brokers
    )
    return ClusterMetadata(
        cluster_id=answer.cluster_id or "",
        nodes=tuple(sorted(nodes, key=lambda node: node.id)),
        error_code=answer.error_code,
    )


METADATA_REQUEST: Final = ClientRequest(
    api=METADATA,
    encode=lambda version: metadata.encode_request(version, metadata.MetadataRequest(topics=())),
    decode=_decode,
    verdict=lambda response: ResponseStatus(code=response.error_code),
    right="Describe",
)
"""The cluster id and its live brokers, no topics."""
