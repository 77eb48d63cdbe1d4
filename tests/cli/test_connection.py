"""Output and duration of commands while a cluster is unreachable."""

import re
import socket
import time

from tests.cli.projects import project, quota


def test_a_broker_that_accepts_and_never_answers_is_announced_and_reported_before_the_deadline(
    kquota, folder
):
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as server:  # its backlog accepts connections, no process reads
        address = f"127.0.0.1:{server.getsockname()[1]}"
        project(folder, address, quota("a"))
        began = time.monotonic()
        ran = kquota("plan", "--timeout", "2500ms")
        spent = time.monotonic() - began
    assert ran.code == 1
    assert f"connecting to {address}: attempt 1" in ran.err
    named = re.search(r"error: no usable connection to \S+ within ([0-9.]+) s", ran.err)
    assert named is not None, ran.err
    assert 2 < float(named[1]) < spent + 0.1
