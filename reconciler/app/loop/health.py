"""Health and readiness of a process of loops: the definition for ``watch``, ``drift --watch`` and the operator.

Healthy: no reconciliation has lasted for more than half an hour. Only a restart corrects one that hangs, since every
call to a cluster has a deadline.

Ready: every loop has ended a reconciliation, and every loop and every source of its documents (the git branch, the
API server) was up to date at most three intervals ago. Whether a reconciliation succeeded does not count: another
process would not reach the cluster either. Metrics, alerts and logs report failures.
"""

from collections.abc import Iterable
from typing import Final

from reconciler.app.loop.cluster_loop import ClusterLoop

LONGEST_SECONDS: Final = 1800.0
"""A reconciliation that lasts longer hangs."""

LATE_INTERVALS: Final = 3
"""Number of intervals without an update after which a loop or a source is late."""

GRACE_SECONDS: Final = 120.0
"""Additional time for retries, calls in flight and varying intervals."""


def hung_loops(loops: Iterable[ClusterLoop], now: float) -> list[str]:
    """Return the loops whose reconciliation does not end, for liveness probes.

    Args:
        now: Seconds since the epoch.
    """
    return [
        f"{loop.name}: a reconciliation has lasted for {now - loop.last_started:.0f} s"
        for loop in loops
        if loop.is_running
        and loop.last_started is not None
        and now - loop.last_started > LONGEST_SECONDS
    ]


def late_loops(loops: Iterable[ClusterLoop], now: float) -> list[str]:
    """Return the loops that have not reconciled yet, or not for too long, for readiness probes.

    A running reconciliation is not late: its duration is a matter of health.

    Args:
        now: Seconds since the epoch.
    """
    problems: list[str] = []
    for loop in loops:
        if loop.last_ended is None:
            problems.append(f"{loop.name}: first reconciliation pending")
        elif not loop.is_running and is_late(loop.last_ended, loop.interval, now):
            problems.append(f"{loop.name}: no reconciliation for {now - loop.last_ended:.0f} s")
    return problems


def is_late(last: float, interval: float, now: float) -> bool:
    """Whether something that should happen every ``interval`` seconds has not happened for too long."""
    return now - last > LATE_INTERVALS * interval + GRACE_SECONDS
