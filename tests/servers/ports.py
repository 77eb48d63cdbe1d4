"""Free loopback ports, chosen before a server binds them and reserved among all test processes.

A KRaft voter list needs its ports in advance. They are below the range of outgoing connections (from
32768 on Linux), so that the port of a restarted broker is still free. A port is locked until the process
that chose it ends, so that no other test process chooses it before the server binds it.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 20_000, 32_000

_locks: list[int] = []
"""File descriptors of the locked ports; the end of the process closes and unlocks them."""


def free_ports(count: int) -> list[int]:
    """Return `count` different ports on 127.0.0.1 that are not bound and not reserved by another test process."""
    chooser = random.SystemRandom()  # concurrent and seeded test runs must not choose equal ports
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
    """Try to reserve the port until this process ends."""
    folder = Path(tempfile.gettempdir()) / f"kafka-quota-reconciler-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    # Child processes must not inherit it: a server that outlives its test would keep the lock.
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    _locks.append(lock)
    return True
