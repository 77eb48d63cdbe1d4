"""What Prometheus and probes read, and the server that answers them. The only package that imports prometheus_client.

metrics = Metrics()
async with HealthServer(address("127.0.0.1:9180"), metrics=metrics, healthy=..., ready=...) as server:
    metrics.record(reconciliation)
"""

from reconciler.metrics.registry import Metrics
from reconciler.metrics.server import HealthServer, ListenAddress, address

__all__ = ["HealthServer", "ListenAddress", "Metrics", "address"]
