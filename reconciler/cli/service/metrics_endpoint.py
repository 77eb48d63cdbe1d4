"""``--metrics-address``: metrics and probes of a command that stays, and words of its loops on our console."""

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import packed
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.metrics import Metrics

F = TypeVar("F", bound=Callable[..., Any])

_LOOPS: Final = "reconciler.loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """Where metrics are served, as it was typed.

    Attributes:
        address: ``HOST:PORT``; ``None`` = nowhere.
        entity_labels: Whether they name entities.
    """

    address: str | None
    entity_labels: bool

    def __post_init__(self) -> None:
        if self.entity_labels and self.address is None:
            raise UsageError("--metrics-entity-labels is about --metrics-address")


def serving_options(function: F) -> F:
    """The options of :class:`MetricsOptions`, handed over as ``serving``."""
    decorate: Callable[[F], F] = packed("serving", MetricsOptions, ("address", "entity_labels"), (
        click.option("--metrics-address", "address", metavar="HOST:PORT",
                     help="Address of /metrics, /healthz and /readyz; :PORT listens on every address."),
        click.option("--metrics-entity-labels", "entity_labels", is_flag=True,
                     help="Include names and limits of drifted entities in metrics, which any scraper can read."),
    ))  # fmt: skip
    return decorate(function)


def metrics_of(serving: MetricsOptions) -> "Metrics | None":
    """The metrics, if they are asked for.

    Raises:
        UsageError: The extra is not installed.
    """
    if serving.address is None:
        return None
    from reconciler.base.extras import needs

    needs("watch", "--metrics-address")
    from reconciler.metrics import Metrics

    return Metrics(entity_labels=serving.entity_labels)


@contextlib.asynccontextmanager
async def served(
    console: Console,
    serving: MetricsOptions,
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
