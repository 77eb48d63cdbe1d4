"""Client quotas of a real broker by raw bytes: independent reads, and another writer.

DescribeClientQuotas and AlterClientQuotas at version 0, which every supported broker accepts.
Entities are sorted tuples of (type, name), with None for the default.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.servers import ping

Entity = tuple[tuple[str, str | None], ...]
Quotas = dict[Entity, dict[str, float]]
DESCRIBE, ALTER = 48, 49
OPERATIONS_A_REQUEST = 5_000
VISIBLE_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The broker's result of one alteration."""

    entity: Entity
    error: int
    message: str | None


class Reader:
    """Reads the fields of a response in order."""

    def __init__(self, raw: bytes) -> None:
        """Start at the first byte."""
        self.raw, self.place = raw, 0

    def take(self, layout: str) -> tuple[int | float, ...]:
        """Read the values of a `struct` layout."""
        values = struct.unpack_from(">" + layout, self.raw, self.place)
        self.place += struct.calcsize(">" + layout)
        return values

    def text(self) -> str | None:
        """Read a nullable string."""
        (length,) = struct.unpack_from(">h", self.raw, self.place)
        start = self.place + 2
        self.place = start + max(0, length)
        return None if length < 0 else self.raw[start : self.place].decode()

    def repeat(self) -> Iterator[int]:
        """Read the length of a nullable array; return an iterator over its indices."""
        (count,) = struct.unpack_from(">i", self.raw, self.place)
        self.place += 4
        return iter(range(max(0, count)))

    def entity(self) -> Entity:
        """Read an array of (type, name)."""
        return entity(**{str(self.text()): self.text() for _ in self.repeat()})


def entity(**parts: str | None) -> Entity:
    """Return an entity; `client_id` is the type `client-id`, and None is the default."""
    return tuple(sorted((kind.replace("_", "-"), name) for kind, name in parts.items()))


def describe(port: int, *, seconds: float = ping.CALL_SECONDS) -> Quotas:
    """Return all client quotas of the broker at `port`.

    Raises:
        CallFailed: The broker responded with an error.
    """
    with ping.connected(port, seconds=seconds) as connection:
        return describe_over(connection)


def describe_over(connection: socket.socket) -> Quotas:
    """Like `describe`, over an open connection (`ping.connected`)."""
    raw = ping.exchange(connection, DESCRIBE, 0, struct.pack(">ib", 0, 0))
    reader = Reader(raw)
    _throttle, error = reader.take("ih")
    message = reader.text()
    if error != 0:
        raise ping.CallFailed(f"DescribeClientQuotas failed with error {error}: {message}")
    quotas: Quotas = {}
    for _ in reader.repeat():
        owner = reader.entity()
        quotas[owner] = {str(reader.text()): float(*reader.take("d")) for _ in reader.repeat()}
    return quotas


def alter(
    port: int,
    changes: Mapping[Entity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
    seconds: float = 65.0,
) -> list[Answer]:
    """Send an AlterClientQuotas request; None removes a key. Return the results in the broker's order."""
    body = struct.pack(">i", len(changes))
    for owner, values in changes.items():
        body += struct.pack(">i", len(owner))
        for kind, name in owner:
            body += ping.short_string(kind) + ping.short_string(name)
        body += struct.pack(">i", len(values))
        for key, value in values.items():
            body += ping.short_string(key) + struct.pack(">d?", value or 0.0, value is None)
    raw = ping.call(port, ALTER, 0, body + struct.pack(">?", validate_only), seconds=seconds)
    reader = Reader(raw)
    reader.take("i")
    answers = []
    for _ in reader.repeat():
        (error,) = reader.take("h")
        message = reader.text()
        answers.append(Answer(entity=reader.entity(), error=int(error), message=message))
    return answers


def set_quotas(
    ports: int | Sequence[int], changes: Mapping[Entity, Mapping[str, float | None]]
) -> None:
    """Alter at the first port, and wait until every port shows the values.

    Raises:
        CallFailed: The broker refused an alteration, or a port did not show the values in time.
    """
    everywhere = [ports] if isinstance(ports, int) else list(ports)
    refused = [answer for answer in alter(everywhere[0], changes) if answer.error != 0]
    if refused:
        raise ping.CallFailed(f"the broker refused: {refused}")
    for port in everywhere:
        wait_for(port, lambda quotas: all(_shows(quotas, *change) for change in changes.items()))


def clear(port: int) -> None:
    """Remove every quota, and wait until the broker at `port` shows none.

    Changes become visible in the order of the metadata log. So a new one is awaited first: acknowledged changes that the
    broker does not show yet would come after the removal.
    """
    set_quotas(port, {entity(user="last"): {"producer_byte_rate": 1.0}})
    present = describe(port)
    for chunk in _chunks(present):
        alter(port, {owner: dict.fromkeys(present[owner]) for owner in chunk})
    wait_for(port, lambda quotas: not quotas)


def _shows(quotas: Quotas, owner: Entity, values: Mapping[str, float | None]) -> bool:
    present = quotas.get(owner, {})
    return all(present.get(key) == value for key, value in values.items())


def _chunks(present: Quotas) -> Iterable[list[Entity]]:
    chunk: list[Entity] = []
    operations = 0
    for owner, values in present.items():
        if operations + len(values) > OPERATIONS_A_REQUEST:
            yield chunk
            chunk, operations = [], 0
        chunk.append(owner)
        operations += len(values)
    if chunk:
        yield chunk


def wait_for(port: int, claim: Callable[[Quotas], bool]) -> None:
    """Wait until `claim` is true for the quotas of the broker at `port`.

    Alterations become visible some milliseconds after the response, for many keys some seconds.

    Raises:
        CallFailed: It was not true within `VISIBLE_SECONDS`.
    """
    deadline = time.monotonic() + VISIBLE_SECONDS
    never = threading.Event()
    while not claim(describe(port)):
        if time.monotonic() > deadline:
            raise ping.CallFailed(f"port {port} did not show the change in {VISIBLE_SECONDS} s")
        never.wait(0.01)
