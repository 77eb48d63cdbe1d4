"""Serial passes over a cluster, again and again: what ``operator`` and ``watch`` share. Knows no Kubernetes.

    mailbox = Mailbox(clock=clock)                                  # handlers only put keys
    passes = Passes("prod", clock=clock, window=RemovalWindow(store, seconds=3600.0))
    loop = ClusterLoop("prod", mailbox=mailbox, work=work, pace=lambda: pace, clock=clock, random=random.random)
    await supervise({"loop prod": loop.run(stop), ...}, stop)

``work`` is an async function from a ``Wake`` to a ``Turn`` that ends in ``await passes.run(ports, orders, desired)``.
"""

from reconciler.errors import TaskDied
from reconciler.loop.cluster_loop import ClusterLoop, Turn, Wake
from reconciler.loop.mailbox import Batch, Mailbox
from reconciler.loop.pace import Pace
from reconciler.loop.passes import Passes
from reconciler.loop.removals import MemoryRemovals, RemovalStore, RemovalWindow
from reconciler.loop.supervise import supervise

__all__ = [
    "Batch",
    "ClusterLoop",
    "Mailbox",
    "MemoryRemovals",
    "Pace",
    "Passes",
    "RemovalStore",
    "RemovalWindow",
    "TaskDied",
    "Turn",
    "Wake",
    "supervise",
]
