"""Client settings of one cluster, and messages about attempts to connect."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.app.notices import TextReceiver
from reconciler.client.client_config import ClientConfig
from reconciler.client.configuration.references import ANYTHING
from reconciler.client.events import ClientEvents, Connecting, ResponseReceived, Retried, Throttled

LINE_SECONDS = 1.0
"""Seconds between two messages about attempts to connect, and before the first one about a slow attempt."""

QUICK_LINES = 10
SLOW_LINE_SECONDS = 10.0
"""Seconds between two messages after ``QUICK_LINES`` messages."""

REPORTED_FROM_ATTEMPT = 3
"""The first attempts of a call may fail on a healthy cluster; from this one on they are reported."""


def client_config(
    notices: TextReceiver,
    *,
    bootstrap_server: str | None,
    command_config: str | None,
    timeout: float | None = None,
) -> ClientConfig:
    """Return the settings from the options of Kafka's own tools; report warnings about the file.

    References such as ``${env:PASSWORD}`` are resolved: the file belongs to the user of the command.

    Raises:
        ConfigError: The file or a setting is invalid, or there are no bootstrap servers.
    """
    overrides = overriding(bootstrap_server, timeout)
    if command_config is not None:
        config = ClientConfig.from_properties(
            Path(command_config), overrides=overrides, allowed=ANYTHING
        )
    else:
        config = ClientConfig.from_mapping(overrides, location="the command line")
    for warning in config.warnings:
        notices.warning(warning)
    return config


def overriding(bootstrap_server: str | None, timeout: float | None) -> Mapping[str, str]:
    """Return the settings of options by their Java names; they override every file."""
    overrides = {} if bootstrap_server is None else {"bootstrap.servers": bootstrap_server}
    if timeout is not None:
        milliseconds = str(max(1, round(timeout * 1000)))
        overrides |= {"default.api.timeout.ms": milliseconds, "request.timeout.ms": milliseconds}
    return overrides


def connection_events(
    notices: TextReceiver, answered: Callable[[ResponseReceived], None] | None = None
) -> ClientEvents:
    """Return events that show why a call takes long: each attempt to connect, each reason for a retry once.

    Args:
        answered: Called with each answer of a broker.
    """
    attempts = _Attempts(notices)
    reported: set[str] = set()

    def retried(event: Retried) -> None:
        if not event.api:
            attempts.failed(event)
        elif event.attempt >= REPORTED_FROM_ATTEMPT and event.reason not in reported:
            reported.add(event.reason)
            notices.note(f"trying again: {event.reason}")

    def throttled(event: Throttled) -> None:
        if event.seconds >= 1 and event.node not in reported:
            reported.add(event.node)
            notices.note(f"{event.node} throttles this client for {event.seconds:.1f} s; waiting")

    def received(event: ResponseReceived) -> None:
        attempts.ended(event)
        if answered is not None:
            answered(event)

    return ClientEvents(
        connecting=attempts.began, response=received, retry=retried, throttled=throttled
    )


class _Attempts:
    """Reports attempts to connect that last longer than a second, and failed ones at a limited rate."""

    def __init__(self, notices: TextReceiver) -> None:
        self._notices = notices
        self._timer: asyncio.TimerHandle | None = None
        self._shown_at, self._lines = 0.0, 0

    def began(self, event: Connecting) -> None:
        """Report the attempt if it is still running after a second."""
        text = (
            f"connecting to {event.node}: attempt {event.attempt}, ends after {event.seconds:.1f} s"
        )
        self._stop()
        self._timer = asyncio.get_running_loop().call_later(LINE_SECONDS, self._notices.note, text)

    def failed(self, event: Retried) -> None:
        """Report the failure: at most one message per second, after ten messages one per ten seconds."""
        self._stop()
        now = asyncio.get_running_loop().time()
        pause = LINE_SECONDS if self._lines < QUICK_LINES else SLOW_LINE_SECONDS
        if now - self._shown_at >= pause:
            self._shown_at, self._lines = now, self._lines + 1
            self._notices.note(f"attempt {event.attempt}: {event.reason}")

    def ended(self, _: ResponseReceived) -> None:
        """Stop reporting: the broker answered."""
        self._stop()
        self._lines = 0

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
