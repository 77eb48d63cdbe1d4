"""Serves metrics and probes of a process of loops, if an address was typed."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from reconciler.app.notices import TextReceiver
from reconciler.app.requests import MetricsRequest

if TYPE_CHECKING:
    from reconciler.metrics import Metrics


def metrics_of(serving: MetricsRequest) -> "Metrics | None":
    """Return the metrics, if an address was typed.

    Raises:
        UsageError: The extra is not installed.
    """
    if serving.address is None:
        return None
    from reconciler.base.installation import needs

    needs("watch", "--metrics-address")
    from reconciler.metrics import Metrics

    return Metrics(entity_labels=serving.entity_labels)


@contextlib.asynccontextmanager
async def serve_metrics(
    notices: TextReceiver,
    serving: MetricsRequest,
    metrics: "Metrics | None",
    *,
    healthy: Callable[[], Sequence[str]],
    ready: Callable[[], Sequence[str]],
) -> AsyncIterator[None]:
    """Run the server while the context lasts; do nothing if no address was typed.

    Raises:
        ConfigError: It cannot listen there.
    """
    if metrics is None or serving.address is None:
        yield
        return
    from reconciler.metrics import HealthServer, address

    endpoint = address(serving.address)
    async with HealthServer(endpoint, metrics=metrics, healthy=healthy, ready=ready) as server:
        notices.note(f"metrics and probes on {endpoint.host or '*'}:{server.port}")
        yield
