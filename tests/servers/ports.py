"""Free loopback ports, chosen before anything listens on them.

A KRaft voter list needs its ports in advance. They are taken from below the range that outgoing
connections use (32768 on Linux), so that a restarted broker finds its port still free.
"""

import random
import socket

FIRST, LAST = 20_000, 32_000


def free_ports(count: int) -> list[int]:
    """`count` different ports on 127.0.0.1 that nobody listens on now."""
    chooser = random.SystemRandom()  # test runs side by side, and seeded ones, must not agree
    held: dict[int, socket.socket] = {}
    try:
        while len(held) < count:
            port = chooser.randrange(FIRST, LAST)
            if port not in held:
                held |= _try_to_hold(port)
        return list(held)
    finally:
        for probe in held.values():
            probe.close()


def _try_to_hold(port: int) -> dict[int, socket.socket]:
    probe = socket.socket()
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        probe.close()
        return {}
    return {port: probe}
