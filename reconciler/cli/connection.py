"""How a command line says which brokers: ``--bootstrap-server`` and ``--command-config`` become a client's settings."""

from pathlib import Path

from reconciler.cli.console import Console
from reconciler.client.config import ClientConfig
from reconciler.client.references import ANYTHING


def client_config(
    console: Console, *, bootstrap_server: str | None, command_config: str | None
) -> ClientConfig:
    """Settings from the two options of Kafka's own tools; warnings about the file are said here.

    References such as ``${env:PASSWORD}`` are resolved: the file belongs to the person who runs the command.

    Raises:
        ConfigError: The file or a setting is wrong, or nothing says where the brokers are.
    """
    overrides = {} if bootstrap_server is None else {"bootstrap.servers": bootstrap_server}
    if command_config is not None:
        made = ClientConfig.from_properties(
            Path(command_config), overrides=overrides, allowed=ANYTHING
        )
    else:
        made = ClientConfig.from_mapping(overrides, where="the command line")
    for warning in made.warnings:
        console.warning(warning)
    return made
