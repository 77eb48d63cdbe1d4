"""When a process of loops is healthy: the one definition for ``watch``, ``drift --watch`` and the operator."""

from collections.abc import Iterable
from typing import Final

from reconciler.app.loop.cluster_loop import ClusterLoop

LONGEST_SECONDS: Final = 1800.0
"""A reconciliation that lasts longer hangs, since every call to a cluster has a deadline; only a new process mends it."""


def hung_loops(loops: Iterable[ClusterLoop], now: float) -> list[str]:
    """What liveness probes get: the loops whose reconciliation does not end.

    Args:
        loops: The loops of the process.
        now: Seconds since the epoch.
    """
    return [
        f"{loop.name}: a reconciliation has lasted for {now - loop.last_started:.0f} s"
        for loop in loops
        if loop.last_started is not None
        and (loop.last_ended is None or loop.last_ended < loop.last_started)
        and now - loop.last_started > LONGEST_SECONDS
    ]
