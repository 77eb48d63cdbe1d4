"""Tests of raw calls: responses of real brokers, and errors."""

import socket

import pytest

from tests.servers import ping
from tests.servers.ports import free_ports


def test_a_null_string_differs_from_an_empty_one() -> None:
    assert ping.short_string(None) == b"\xff\xff"
    assert ping.short_string("") == b"\0\0"
    assert ping.short_string("ö") == b"\0\2\xc3\xb6"


def test_a_port_without_a_broker_does_not_answer() -> None:
    (port,) = free_ports(1)
    assert not ping.answers(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not ping.answers(port, seconds=0.05)


def test_a_connection_that_closes_early_is_an_error() -> None:
    client_socket, broker_socket = socket.socketpair()
    with client_socket, broker_socket:
        broker_socket.sendall(b"abc")
        broker_socket.close()
        with pytest.raises(ConnectionError, match="closed the connection"):
            ping.receive(client_socket, 4)


def test_an_operation_without_a_code_is_refused() -> None:
    with pytest.raises(ValueError, match="Fly is not one of Alter, "):
        ping.Grant(principal="User:x", operation="Fly")
