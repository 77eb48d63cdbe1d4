"""``--metrics-address``: metrics and probes of a command that stays, and words of its loops on our console."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from reconciler.app.requests import MetricsRequest
from reconciler.cli.framework.console import Console

if TYPE_CHECKING:
    from reconciler.metrics import Metrics

_LOOPS: Final = "reconciler.loop"


def metrics_of(serving: MetricsRequest) -> "Metrics | None":
    """The metrics, if they are asked for.

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
async def served(
    console: Console,
    serving: MetricsRequest,
    metrics: "Metrics | None",
    *,
    healthy: Callable[[], Sequence[str]],
    ready: Callable[[], Sequence[str]],
) -> AsyncIterator[None]:
    """The server, while the context lasts; nothing if it was not asked for.

    Raises:
        ConfigError: It cannot listen there.
    """
    if metrics is None or serving.address is None:
        yield
        return
    from reconciler.metrics import HealthServer, address

    endpoint = address(serving.address)
    async with HealthServer(endpoint, metrics=metrics, healthy=healthy, ready=ready) as server:
        console.note(f"metrics and probes on {endpoint.host or '*'}:{server.port}")
        yield


class _ConsoleWarningHandler(logging.Handler):
    """Log records of loops as warnings; names and words of brokers in them forge no line."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.warning(record.getMessage())


@contextlib.contextmanager
def loops_speak(console: Console) -> Iterator[None]:
    """While the context lasts, what loops log is said on the console."""
    log, handler = logging.getLogger(_LOOPS), _ConsoleWarningHandler(console)
    before = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before
