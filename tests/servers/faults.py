"""Faults between a client and a broker: Kafka frames, fault definitions, ports in responses. No I/O."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

METADATA, DESCRIBE_CONFIGS, DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS = 3, 32, 48, 49
DESCRIBE_SCRAM, DESCRIBE_CLUSTER = 50, 60
WITH_BROKER_ADDRESSES = frozenset({METADATA, DESCRIBE_CLUSTER})
LOOPBACK = b"127.0.0.1"
FLEXIBLE_FROM = 1  # the first version of AlterClientQuotas whose requests end with tags


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
        tags = 1 if self.api_version >= FLEXIBLE_FROM else 0
        return self.api_key == ALTER_CLIENT_QUOTAS and self.frame[-1 - tags] == 0


class Action(StrEnum):
    """What happens to a matching request or to its response."""

    HOLD_REQUEST = "hold request"  # the request is forwarded only after a release
    HOLD_ANSWER = "hold answer"  # the response is forwarded only after a release


def any_request(_: Request) -> bool:
    """Match every request."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The definition of a fault.

    It applies to the `nth` request since it was added that has the API key (None: any) and satisfies `matching`.
    """

    action: Action
    api_key: int | None = None
    nth: int = 1
    matching: Callable[[Request], bool] = any_request

    def matches(self, request: Request) -> bool:
        """Whether the request is counted."""
        return self.api_key in {None, request.api_key} and self.matching(request)


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
