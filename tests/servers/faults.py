"""Faults between a client and a broker: Kafka frames, fault definitions, edits of responses. No I/O."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

METADATA, DESCRIBE_CONFIGS, DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS = 3, 32, 48, 49
DESCRIBE_SCRAM, DESCRIBE_CLUSTER = 50, 60
WITH_BROKER_ADDRESSES = frozenset({METADATA, DESCRIBE_CLUSTER})
LOOPBACK = b"127.0.0.1"

# API key -> first version with the flexible response header (one more byte), for the APIs whose
# responses begin with throttle_time_ms (Metadata: from version 3).
FLEXIBLE_FROM = {
    METADATA: 9,
    DESCRIBE_CONFIGS: 4,
    DESCRIBE_CLIENT_QUOTAS: 1,
    ALTER_CLIENT_QUOTAS: 1,
    DESCRIBE_SCRAM: 0,
    DESCRIBE_CLUSTER: 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that passed the proxy; `frame` is header and body without the length."""

    connection: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    frame: bytes

    @classmethod
    def parse(cls, frame: bytes, *, connection: int) -> "Request":
        """Parse the request header, which is equal in versions 1 and 2 up to the client id."""
        key, version, correlation, length = struct.unpack_from(">hhih", frame)
        client = None if length < 0 else frame[10 : 10 + length].decode()
        return cls(
            connection=connection,
            api_key=key,
            api_version=version,
            correlation_id=correlation,
            client_id=client,
            frame=frame,
        )

    @property
    def writes(self) -> bool:
        """Whether the request changes quotas; validate_only is the last field of AlterClientQuotas (49)."""
        tags = 1 if self.api_version >= FLEXIBLE_FROM[ALTER_CLIENT_QUOTAS] else 0
        return self.api_key == ALTER_CLIENT_QUOTAS and self.frame[-1 - tags] == 0


class Action(StrEnum):
    """What happens to a matching request or to its response."""

    CUT_BEFORE = "cut before"  # the request does not reach the broker; the connection is closed
    HOLD_REQUEST = "hold request"  # the request is forwarded only after a release
    LOSE_ANSWER = "lose answer"  # the broker executed the request; the connection is closed
    HOLD_ANSWER = "hold answer"  # the response is forwarded only after a release
    TRUNCATE = "truncate"  # the first bytes of the response, then a closed connection
    DUPLICATE = "duplicate"  # the response twice
    EDIT = "edit"  # the response changed by `edit`


Edit = Callable[[Request, bytes], bytes]


def any_request(_: Request) -> bool:
    """Match every request."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The definition of a fault.

    It applies to the `nth` request since it was added that has the API key (None: any) and satisfies
    `matching`; with `repeat` also to all later ones. `keep_bytes` counts from the frame's length field
    on; `edit` receives the response without the length and returns what is sent instead.
    """

    action: Action
    api_key: int | None = None
    nth: int = 1
    repeat: bool = False
    matching: Callable[[Request], bool] = any_request
    keep_bytes: int = 0
    edit: Edit | None = None

    def __post_init__(self) -> None:
        """Refuse definitions that could never apply."""
        if self.nth < 1:
            raise ValueError("requests are counted from 1")
        if (self.action is Action.EDIT) != (self.edit is not None):
            raise ValueError("`edit` belongs to Action.EDIT, and only there")

    def matches(self, request: Request) -> bool:
        """Whether the request is counted."""
        return self.api_key in {None, request.api_key} and self.matching(request)


def shift_correlation(step: int = 1) -> Edit:
    """Return an edit that sets the correlation id of another request."""

    def edit(request: Request, answer: bytes) -> bytes:
        return struct.pack(">i", request.correlation_id + step) + answer[4:]

    return edit


def throttle(milliseconds: int) -> Edit:
    """Return an edit that sets throttle_time_ms; for responses of APIs in `FLEXIBLE_FROM`."""

    def edit(request: Request, answer: bytes) -> bytes:
        start = 5 if request.api_version >= FLEXIBLE_FROM[request.api_key] else 4
        return answer[:start] + struct.pack(">i", milliseconds) + answer[start + 4 :]

    return edit


def show_ports(answer: bytes, ports: Mapping[int, int]) -> bytes:
    """Replace broker ports in a response of Metadata or DescribeCluster.

    A port follows its host in every version of both APIs, and host and port keep their length. All
    are replaced in one pass, so that ports can be swapped.
    """
    parts = answer.split(LOOPBACK)
    for place, part in enumerate(parts[1:], start=1):
        (port,) = struct.unpack_from(">i", part.ljust(4, b"\0"))
        if port in ports:
            parts[place] = struct.pack(">i", ports[port]) + part[4:]
    return LOOPBACK.join(parts)
