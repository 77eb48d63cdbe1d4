"""Options of commands that run until they are stopped: metrics and probes, notifications."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from reconciler.app.requests import NOTIFICATION_SHAPES, MetricsRequest, NotificationRequest
from reconciler.cli.options.shared import FILE, packed
from reconciler.cli.options.value_types import DurationParameter

F = TypeVar("F", bound=Callable[..., Any])

_DAY: Final = 86_400.0


def serving_options(function: F) -> F:
    """The options of :class:`MetricsRequest`, handed over as ``serving``."""
    decorate: Callable[[F], F] = packed("serving", MetricsRequest, ("address", "entity_labels"), (
        click.option("--metrics-address", "address", metavar="HOST:PORT",
                     help="Address of /metrics, /healthz and /readyz; :PORT listens on every address."),
        click.option("--metrics-entity-labels", "entity_labels", is_flag=True,
                     help="Include names and limits of drifted entities in metrics, which any scraper can read."),
    ))  # fmt: skip
    return decorate(function)


def notify_options(function: F) -> F:
    """The options of :class:`NotificationRequest`, handed over as ``telling``."""
    fields = ("receivers", "key", "remind_after", "state")
    decorate: Callable[[F], F] = packed("telling", NotificationRequest, fields, (
        click.option("--notify", "receivers", multiple=True, metavar="SHAPE=env:NAME|file:PATH",
                     help=f"Send notifications to the URL in this variable or file; shapes: {', '.join(NOTIFICATION_SHAPES)}."),
        click.option("--notify-key", "key", metavar="env:NAME|file:PATH",
                     help="Variable or file with the key that signs messages (HMAC-SHA256)."),
        click.option("--remind-after", type=DurationParameter(), default=_DAY, show_default="1d", metavar="DURATION",
                     help="Time after which unchanged drift is notified again."),
        click.option("--notify-state", "state", type=FILE, metavar="FILE",
                     help="File with the notifications that were sent  [default: .kquota/notified.json beside the project file]."),
    ))  # fmt: skip
    return decorate(function)
