"""Ports are free, different, and out of the way of outgoing connections."""

import socket

from tests.servers.ports import FIRST, LAST, free_ports


def test_ports_are_different_and_can_be_listened_on() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(FIRST <= port < LAST for port in ports)
    for port in ports[:3]:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_taken_port_is_not_offered() -> None:
    (taken,) = free_ports(1)
    with socket.create_server(("127.0.0.1", taken)):
        assert taken not in free_ports(50)
