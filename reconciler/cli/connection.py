"""From options to a client: ``--bootstrap-server``, ``--command-config``, ``--timeout``, and patience that is told."""

from collections.abc import Mapping
from pathlib import Path

from reconciler.cli.console import Console
from reconciler.client.config import ClientConfig
from reconciler.client.events import Events, Retried, Throttled
from reconciler.client.references import ANYTHING

TOLD_FROM_ATTEMPT = 3
"""The first tries of a call fail now and then on a healthy cluster; from this one on people are told."""


def client_config(
    console: Console,
    *,
    bootstrap_server: str | None,
    command_config: str | None,
    timeout: float | None = None,
) -> ClientConfig:
    """Settings from the options of Kafka's own tools; warnings about the file are said here.

    References such as ``${env:PASSWORD}`` are resolved: the file belongs to the person who runs the command.

    Raises:
        ConfigError: The file or a setting is wrong, or nothing says where the brokers are.
    """
    overrides = overriding(bootstrap_server, timeout)
    if command_config is not None:
        made = ClientConfig.from_properties(
            Path(command_config), overrides=overrides, allowed=ANYTHING
        )
    else:
        made = ClientConfig.from_mapping(overrides, where="the command line")
    for warning in made.warnings:
        console.warning(warning)
    return made


def overriding(bootstrap_server: str | None, timeout: float | None) -> Mapping[str, str]:
    """The settings that options give, under their Java names; they beat every file."""
    given = {} if bootstrap_server is None else {"bootstrap.servers": bootstrap_server}
    if timeout is not None:
        milliseconds = str(max(1, round(timeout * 1000)))
        given |= {"default.api.timeout.ms": milliseconds, "request.timeout.ms": milliseconds}
    return given


def telling(console: Console) -> Events:
    """Events that tell a person why it takes so long: once per reason, not once per try."""
    told: set[str] = set()

    def retried(event: Retried) -> None:
        if event.attempt >= TOLD_FROM_ATTEMPT and event.reason not in told:
            told.add(event.reason)
            console.note(f"trying again: {event.reason}")

    def throttled(event: Throttled) -> None:
        if event.seconds >= 1 and event.node not in told:
            told.add(event.node)
            console.note(f"{event.node} throttles us for {event.seconds:.1f} s; waiting")

    return Events(retry=retried, throttled=throttled)
