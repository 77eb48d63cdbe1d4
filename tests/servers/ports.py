"""Free loopback ports, chosen before anything listens on them and reserved among all test processes.

A KRaft voter list needs its ports in advance. They are taken from below the range that outgoing
connections use (32768 on Linux), so that a restarted broker finds its port still free. A port is
locked for as long as the process that chose it runs: between the choice and the server's own bind,
another test process would otherwise choose the same port now and then.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 20_000, 32_000

_locks: list[int] = []
"""Open files of the locked ports; they close, and unlock, when the process ends."""


def free_ports(count: int) -> list[int]:
    """`count` different ports on 127.0.0.1 that no process listens on and no test process has chosen."""
    chooser = random.SystemRandom()  # test runs side by side, and seeded ones, must not agree
    ports: list[int] = []
    while len(ports) < count:
        port = chooser.randrange(FIRST, LAST)
        if _is_free(port) and _lock(port):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _lock(port: int) -> bool:
    """Whether the port is now this process's until it ends."""
    folder = Path(tempfile.gettempdir()) / f"kafka-quota-reconciler-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # Child processes do not inherit it: a server that outlives its test would keep the lock.
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    _locks.append(lock)
    return True
