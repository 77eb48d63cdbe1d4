"""Serial reconciliations of a cluster in a loop, shared by ``operator`` and ``watch``. Independent of Kubernetes.

    mailbox = Mailbox(clock=clock)                                  # handlers only put keys
    runner = ReconcileRunner("prod", clock=clock, window=RemovalWindow(store, seconds=3600.0))
    loop = ClusterLoop("prod", mailbox=mailbox, work=work, pace=lambda: pace, clock=clock, random=random.random)
    await supervise({"loop prod": loop.run(stop), ...}, stop)

``work`` is an async function from a ``LoopTrigger`` to a ``LoopOutcome`` that calls ``runner.run(ports, options, desired)``.
"""

from reconciler.app.loop.cluster_loop import (
    ClusterLoop,
    KeyBatch,
    LoopIntervals,
    LoopOutcome,
    LoopTrigger,
    Mailbox,
)
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.app.loop.removal_window import MemoryRemovals, RemovalStore, RemovalWindow
from reconciler.app.loop.task_supervisor import supervise
from reconciler.errors import TaskDied

__all__ = [
    "ClusterLoop",
    "KeyBatch",
    "LoopIntervals",
    "LoopOutcome",
    "LoopTrigger",
    "Mailbox",
    "MemoryRemovals",
    "ReconcileRunner",
    "RemovalStore",
    "RemovalWindow",
    "TaskDied",
    "supervise",
]
