"""Output and duration of commands while a cluster is unreachable."""

import re
import socket
import time

from tests.cli.projects import project, quota


def test_a_refused_connection_is_reported_with_each_attempt(kquota, folder):
    project(folder, "127.0.0.1:1,127.0.0.1:2", quota("a"))
    ran = kquota("plan")
    assert ran.code == 1
    attempts = re.findall(
        r"^attempt (\d+): no connection: .*Connection refused", ran.err, re.MULTILINE
    )
    assert len(attempts) >= 3
    assert re.search(r"error: .*Connection refused \(\d+ attempts in \d+\.\d s\)", ran.err)


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
