"""Tests of ports: free, different, and outside of the range of outgoing connections."""

import socket
import subprocess
import sys

from tests.servers.ports import FIRST, LAST, free_ports


def test_ports_are_different_and_free() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(FIRST <= port < LAST for port in ports)
    for port in ports[:3]:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_port_in_use_is_not_returned() -> None:
    (number,) = free_ports(1)
    with socket.create_server(("127.0.0.1", number)):
        assert number not in free_ports(50)


def test_processes_that_choose_at_the_same_time_get_different_ports() -> None:
    program = (
        "import sys; from tests.servers.ports import free_ports;"
        "print(*free_ports(3000), flush=True); sys.stdin.read()"
    )
    choosers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192)); {program}",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    choices = []
    for chooser in choosers:
        assert chooser.stdout is not None
        choices.append({int(port) for port in chooser.stdout.readline().split()})
    for chooser in choosers:
        chooser.communicate()
    assert [len(ports) for ports in choices] == [3000, 3000]
    assert not choices[0] & choices[1]
