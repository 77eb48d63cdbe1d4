"""A few Kafka requests as raw bytes, so that checks of the servers do not depend on the project's client.

Only what readiness, the quorum's leader and the ACLs of a test cluster need; one connection per call.
Layouts are Kafka's message definitions at the versions given for each call, which all supported brokers
accept.
"""

import socket
import ssl
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
CALL_SECONDS = 60.0
ANSWER_SECONDS = 5.0
CLUSTER, LITERAL, ALLOW, ANY = 4, 3, 3, 1  # ResourceType, PatternType, AclPermissionType, any
METADATA_LEVEL_OF_3_9, NEWEST_METADATA_LEVEL = (
    21,
    60,
)  # feature levels of MetadataVersion; the second is above those of 4.4
OPERATIONS = {"Alter": 7, "Describe": 8, "DescribeConfigs": 10, "AlterConfigs": 11}


class CallFailed(Exception):
    """A broker responded to a raw call with an error code or an invalid layout."""


def short_string(text: str | None) -> bytes:
    """Encode a non-compact nullable string."""
    if text is None:
        return struct.pack(">h", -1)
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def receive(connection: socket.socket, count: int) -> bytes:
    """Receive exactly `count` bytes; raise ConnectionError if the connection is closed before."""
    buffer = bytearray(count)
    remainder = memoryview(buffer)
    while remainder:
        got = connection.recv_into(remainder)
        if not got:
            raise ConnectionError("the broker closed the connection")
        remainder = remainder[got:]
    return bytes(buffer)


@contextmanager
def connected(
    port: int, *, tls: ssl.SSLContext | None = None, seconds: float = CALL_SECONDS
) -> Iterator[socket.socket]:
    """Connect to a loopback port, with TLS if a context is given."""
    with socket.create_connection((LOOPBACK, port), timeout=seconds) as plain:
        if tls is None:
            yield plain
            return
        with tls.wrap_socket(plain, server_hostname="localhost") as secured:
            yield secured


def exchange(
    connection: socket.socket, key: int, version: int, body: bytes, *, flexible: bool = False
) -> bytes:
    """Send a request; return the response without its header."""
    header = struct.pack(">hhi", key, version, 7) + short_string("ping")
    frame = header + (b"\0" if flexible else b"") + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", receive(connection, 4))
    answer = receive(connection, size)
    if struct.unpack_from(">i", answer) != (7,):
        raise CallFailed("the broker answered with a foreign correlation id")
    return answer[5:] if flexible else answer[4:]


def call(
    port: int,
    key: int,
    version: int,
    body: bytes,
    *,
    flexible: bool = False,
    tls: ssl.SSLContext | None = None,
    seconds: float = CALL_SECONDS,
) -> bytes:
    """Send a request on a new connection; return the response without its header."""
    with connected(port, tls=tls, seconds=seconds) as connection:
        return exchange(connection, key, version, body, flexible=flexible)


def api_versions(
    port: int, *, tls: ssl.SSLContext | None = None, seconds: float = CALL_SECONDS
) -> dict[int, tuple[int, int]]:
    """Send ApiVersions v0, allowed before authentication; return API key -> (lowest, highest) version."""
    answer = call(port, 18, 0, b"", tls=tls, seconds=seconds)
    error, count = struct.unpack_from(">hi", answer)
    if error != 0:
        raise CallFailed(f"ApiVersions failed with error {error}")
    rows = struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])
    return {key: (lowest, highest) for key, lowest, highest in rows}


def answers(
    port: int, *, tls: ssl.SSLContext | None = None, seconds: float = ANSWER_SECONDS
) -> bool:
    """Whether a broker at `port` responds to ApiVersions."""
    try:
        return bool(api_versions(port, tls=tls, seconds=seconds))
    except (OSError, CallFailed, struct.error):
        return False


def broker_ports(port: int, *, seconds: float = CALL_SECONDS) -> dict[int, int]:
    """Send Metadata v1 without topics; return broker id -> advertised port."""
    answer = call(port, 3, 1, struct.pack(">i", 0), seconds=seconds)
    (count,) = struct.unpack_from(">i", answer)
    place, ports = 4, {}
    for _ in range(count):
        node, length = struct.unpack_from(">ih", answer, place)
        place += 6 + length
        (advertised, rack) = struct.unpack_from(">ih", answer, place)
        place += 6 + max(rack, 0)
        ports[node] = advertised
    return ports


def quorum_leader(port: int, *, seconds: float = ANSWER_SECONDS) -> int | None:
    """Send DescribeQuorum v0 to a controller listener; return the leader's id, None if this is not the leader.

    In every version only the active controller responds without NOT_LEADER_OR_FOLLOWER (KafkaRaftClient);
    controllers support DescribeCluster only from 3.7 on.
    """
    topic = b"__cluster_metadata"
    one_partition = b"\x02" + struct.pack(">i", 0) + b"\0"
    body = b"\x02" + bytes([len(topic) + 1]) + topic + one_partition + b"\0" + b"\0"
    answer = call(port, 55, 0, body, flexible=True, seconds=seconds)
    if struct.unpack_from(">h", answer) != (0,) or answer[2] < 2:
        return None
    place = answer.index(topic) + len(topic) + 1
    _partition, error, leader = struct.unpack_from(">ihi", answer, place)
    return leader if error == 0 and leader >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An ACL that allows `principal` one operation on the cluster resource, from any host."""

    principal: str
    operation: str

    def __post_init__(self) -> None:
        """Refuse operations that are not in `OPERATIONS`."""
        if self.operation not in OPERATIONS:
            raise ValueError(f"{self.operation} is not one of {', '.join(OPERATIONS)}")


def create_acls(port: int, grants: Sequence[Grant]) -> None:
    """Send CreateAcls v1 for the resource Cluster:kafka-cluster; the client must be a super user."""
    body = struct.pack(">i", len(grants))
    for grant in grants:
        body += struct.pack(">b", CLUSTER) + short_string("kafka-cluster")
        body += struct.pack(">b", LITERAL) + short_string(grant.principal) + short_string("*")
        body += struct.pack(">bb", OPERATIONS[grant.operation], ALLOW)
    answer = call(port, 30, 1, body)
    _throttle, count = struct.unpack_from(">ii", answer)
    if count != len(grants):
        raise CallFailed(f"CreateAcls answered {count} of {len(grants)} creations")
    place = 8
    for grant in grants:
        error, length = struct.unpack_from(">hh", answer, place)
        place += 4 + max(length, 0)
        if error != 0:
            raise CallFailed(f"CreateAcls refused {grant}: error {error}")


def visible_grants(port: int, texts: Iterable[str] = OPERATIONS) -> frozenset[Grant]:
    """Send DescribeAcls v1; return the ACLs on the cluster that this broker enforces."""
    names = {OPERATIONS[name]: name for name in texts}
    everyone = short_string(None) * 2
    body = struct.pack(">b", CLUSTER) + short_string(None) + struct.pack(">b", ANY)
    answer = call(port, 29, 1, body + everyone + struct.pack(">bb", ANY, ANY))
    _throttle, error, length = struct.unpack_from(">ihh", answer)
    if error != 0:
        raise CallFailed(f"DescribeAcls failed with error {error}")
    place = 8 + max(length, 0)
    (resources,) = struct.unpack_from(">i", answer, place)
    place += 4
    grants = set()
    for _ in range(resources):
        (length,) = struct.unpack_from(">h", answer, place + 1)
        place += 3 + length + 1
        (count,) = struct.unpack_from(">i", answer, place)
        place += 4
        for _ in range(count):
            (length,) = struct.unpack_from(">h", answer, place)
            principal = answer[place + 2 : place + 2 + length].decode()
            place += 2 + length
            (length,) = struct.unpack_from(">h", answer, place)
            place += 2 + length
            operation, _permission = struct.unpack_from(">bb", answer, place)
            place += 2
            if operation in names:
                grants.add(Grant(principal=principal, operation=names[operation]))
    return frozenset(grants)
