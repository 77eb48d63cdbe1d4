"""Serial passes over a cluster, again and again: what ``operator`` and ``watch`` share. Knows no Kubernetes.

    mailbox = Mailbox(clock=clock)                                  # handlers only put keys
    passes = Passes("prod", clock=clock, window=RemovalWindow(store, seconds=3600.0))
    loop = ClusterLoop("prod", mailbox=mailbox, work=work, pace=lambda: pace, clock=clock, random=random.random)
    await supervise({"loop prod": loop.run(stop), ...}, stop)

``work`` is an async function from a ``LoopTrigger`` to a ``LoopOutcome`` that ends in ``await passes.run(ports, orders, desired)``.
"""

from reconciler.errors import TaskDied
from reconciler.loop.cluster_loop import ClusterLoop, LoopOutcome, LoopTrigger
from reconciler.loop.mailbox import KeyBatch, Mailbox
from reconciler.loop.pace import LoopIntervals
from reconciler.loop.passes import ReconcileRunner
from reconciler.loop.removals import MemoryRemovals, RemovalStore, RemovalWindow
from reconciler.loop.supervise import supervise

__all__ = [
    "KeyBatch",
    "ClusterLoop",
    "Mailbox",
    "MemoryRemovals",
    "LoopIntervals",
    "ReconcileRunner",
    "RemovalStore",
    "RemovalWindow",
    "TaskDied",
    "LoopOutcome",
    "LoopTrigger",
    "supervise",
]
