"""``kquota sandbox``: runs the in-memory broker in the foreground until Ctrl-C."""

import asyncio
import json
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Never

import click

from reconciler.app.event_loop import run
from reconciler.cli.framework.commands import ExitCode, command, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.logs import collect_as_usual
from reconciler.cli.options.shared import format_option
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.sandbox.authorizer import Authorizer
    from reconciler.sandbox.settings import Listener, SandboxSettings

HELP: Final = """Run an in-memory Kafka broker for tests and demos, with quotas, users and rights, on loopback.

It follows the rules and error messages of the chosen Kafka version; Kafka's own tools work with it.
4.x is Kafka 4.4. 4.0 to 4.3 are one profile: they differ from 4.4 only in values that manifests cannot contain
(NaN is accepted, infinities have other messages).
One line on standard output reports that the broker is ready. Ctrl-C stops it.

With --user it requires SASL with a password, over plain text unless TLS is given. A user's rights are
those of the documented principals: planner reads, applier also alters, all may do everything.

\b
Example:
  kquota sandbox --port 9092
  kquota sandbox --behave-as 3.9 --brokers 3
  kquota sandbox --user admin:secret --user ci:secret2:planner"""

_PROFILES: Final = ("3.4", "3.9", "4.0", "4.1", "4.2", "4.3", "4.x", "redpanda")
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_RIGHTS: Final = ("all", "planner", "applier", "none")


@command(help=HELP)
@option("--behave-as", "Kafka version whose rules apply.", click.Choice(_PROFILES), default="4.x")
@option("--host", "Address to listen on.", default="127.0.0.1")
@option(
    "--port",
    "Port of the first broker; the others follow. 0 chooses a free port.",
    click.IntRange(0, 65535),
    default=0,
)
@option("--brokers", "Number of brokers.", click.IntRange(1, 9), default=1)
@option(
    "--user NAME:PASSWORD[:RIGHTS]",
    f"Require SASL and accept this user; RIGHTS is one of {', '.join(_RIGHTS)}.",
    name="users",
    multiple=True,
)
@option("--tls-certificate", "PEM certificate chain of the server; enables TLS.", _FILE)
@option("--tls-key", "PEM key of the server, if it is in another file.", _FILE)
@option("--tls-client-ca", "PEM authorities of accepted client certificates.", _FILE)
@option("--cluster-id ID", "Cluster id of 22 characters  [default: random].", default="")
@format_option("text", "json")
@click.pass_obj
def sandbox(
    console: Console,
    *,
    behave_as: str,
    host: str,
    port: int,
    brokers: int,
    users: Sequence[str],
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    cluster_id: str,
    output: str,
) -> ExitCode:
    """Run until stopped, then exit 0."""
    from reconciler.sandbox.broker_rules.profiles import profile_named
    from reconciler.sandbox.settings import SandboxSettings

    user_list = _users(users)
    tls = _tls(tls_certificate, tls_key, tls_client_ca)
    settings = SandboxSettings(
        profile=profile_named(behave_as),
        nodes=tuple(range(1, brokers + 1)),
        listeners=(_listener(host, port, asks=bool(user_list), tls=tls),),
        users={name: password for name, password, _ in user_list},
        authorizer=_authorizer(user_list),
        cluster_id=cluster_id,
    )
    try:
        collect_as_usual()
        run(_serve(console, settings, output))
    except KeyboardInterrupt:
        console.note("stopped")
    return ExitCode.DONE


def _users(user_texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return ``(name, password, rights)`` of each ``--user``."""
    user_list = []
    for text in user_texts:
        name, _, credentials = text.partition(":")
        password, colon, rights = credentials.rpartition(":")
        if not colon or rights not in _RIGHTS:
            password, rights = credentials, "all"
        if not name or not password:
            raise UsageError("--user is not of the form NAME:PASSWORD or NAME:PASSWORD:RIGHTS")
        user_list.append((name, password, rights))
    return user_list


def _tls(
    certificate: Path | None, key: Path | None, client_ca: Path | None
) -> ssl.SSLContext | None:
    from reconciler.sandbox.settings import tls_context

    if certificate is None:
        if key is not None or client_ca is not None:
            raise UsageError("--tls-key and --tls-client-ca need --tls-certificate")
        return None
    return tls_context(certificate, key, client_ca)


def _listener(host: str, port: int, *, asks: bool, tls: ssl.SSLContext | None) -> "Listener":
    from reconciler.sandbox.settings import Listener, ListenerProtocol

    protocol = ListenerProtocol(("SASL_" if asks else "") + ("SSL" if tls else "PLAINTEXT"))
    return Listener(name=protocol.value, protocol=protocol, host=host, port=port, tls=tls)


def _authorizer(user_list: Sequence[tuple[str, str, str]]) -> "Authorizer":
    from reconciler.sandbox.authorizer import EVERYTHING, OPEN, READER, RECONCILER, Authorizer

    if not user_list:
        return OPEN
    rights = {
        "all": EVERYTHING,
        "planner": READER,
        "applier": RECONCILER,
        "none": frozenset[Never](),
    }
    return Authorizer(grants={name: rights[right] for name, _, right in user_list})


async def _serve(console: Console, settings: "SandboxSettings", output: str) -> None:
    from reconciler.sandbox.server import Sandbox

    async with Sandbox(settings) as running:
        bootstrap = running.bootstrap()
        if output == "json":
            document = {
                "kind": "kquota-sandbox",
                "format": 1,
                "bootstrap": bootstrap,
                "clusterId": running.cluster_id,
                "behavesAs": settings.profile.name,
                "securityProtocol": settings.listeners[0].protocol.value,
            }
            console.fact(json.dumps(document, sort_keys=True))
        else:
            console.fact(f"bootstrap.servers={bootstrap}")
        console.flush()
        console.note(f"sandbox that behaves as {settings.profile.name}; press Ctrl-C to stop")
        await asyncio.Event().wait()
