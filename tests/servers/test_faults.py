"""Tests that frames are parsed and edited at the right positions."""

import struct

import pytest

from tests.servers.faults import (
    ALTER_CLIENT_QUOTAS,
    METADATA,
    Action,
    Fault,
    Request,
    show_ports,
    throttle,
)


def request(version: int, *, key: int = ALTER_CLIENT_QUOTAS, body: bytes = b"") -> Request:
    return Request.parse(struct.pack(">hhih", key, version, 9, -1) + body, connection=1)


def test_a_header_without_a_client_id_is_read() -> None:
    assert request(0).client_id is None
    assert request(0).correlation_id == 9


@pytest.mark.parametrize(
    ("version", "end", "writes"),
    [(0, b"\0", True), (0, b"\1", False), (1, b"\0\0", True), (1, b"\1\0", False)],
)
def test_an_alteration_is_distinguished_from_a_validation(
    version: int, end: bytes, writes: bool
) -> None:
    assert request(version, body=b"entries" + end).writes is writes


def test_another_request_never_writes() -> None:
    assert not request(1, key=METADATA, body=b"\0\0").writes


def test_the_throttle_time_follows_the_header_of_its_version() -> None:
    answer = bytes(range(12))
    assert throttle(1)(request(0), answer) == answer[:4] + b"\0\0\0\1" + answer[8:]
    assert throttle(1)(request(1), answer) == answer[:5] + b"\0\0\0\1" + answer[9:]


def test_swapped_ports_are_replaced_in_one_pass() -> None:
    def addresses(*ports: int) -> bytes:
        return b"|".join(b"127.0.0.1" + struct.pack(">i", port) for port in ports) + b"127.0.0.1"

    assert show_ports(addresses(1, 2, 3), {1: 2, 2: 1}) == addresses(2, 1, 3)


def test_a_fault_that_could_never_apply_is_refused() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        Fault(action=Action.TRUNCATE, nth=0)
    with pytest.raises(ValueError, match="belongs to"):
        Fault(action=Action.EDIT)
