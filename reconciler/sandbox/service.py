"""``kquota sandbox``: serves one listener until cancelled."""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import ConfigError
from reconciler.sandbox.authorizer import OPEN, Authorizer
from reconciler.sandbox.broker_rules.profiles import NEWEST, BrokerProfile
from reconciler.sandbox.server import Sandbox
from reconciler.sandbox.settings import Listener, ListenerProtocol, SandboxSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of the server."""

    certificate: Path  # the chain, the server's own certificate first
    key: Path | None = None  # its private key, not encrypted; None if it is in the same file
    # Authorities of client certificates, which determine the principal; None = no client certificates.
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of a listener. Raises ConfigError if a file cannot be read, or is not PEM."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the TLS files cannot be used: {error}", key="tls") from error
        return context


async def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 9092,
    profile: BrokerProfile = NEWEST,
    users: Mapping[str, str] | None = None,
    authorizer: Authorizer = OPEN,
    tls: TlsFiles | None = None,
    state_file: Path | None = None,
    cluster_id: str = "",
    brokers: int = 1,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a sandbox until the task is cancelled.

    ``host``: address to listen on and to advertise.
    ``port``: port of the first broker; the others use the next ones. 0 = free ones.
    ``users``: passwords by name; if there are any, clients must authenticate (PLAIN or SCRAM).
    ``tls``: PEM files; ``None`` = without TLS.
    ``cluster_id``: 22 characters, or "" for a random one (or that of the state file).
    ``brokers``: number of brokers that share the quotas; their ids count from 1.
    ``on_ready``: called once with ``host:port,...`` when every broker listens.

    Raises ConfigError if a port is in use, a file cannot be used, or the settings contradict each other.
    """
    protocol = {
        (False, False): ListenerProtocol.PLAINTEXT,
        (False, True): ListenerProtocol.SSL,
        (True, False): ListenerProtocol.SASL_PLAINTEXT,
        (True, True): ListenerProtocol.SASL_SSL,
    }[bool(users), tls is not None]
    listener = Listener(
        name=protocol.value,
        protocol=protocol,
        host=host,
        port=port,
        tls=tls.context() if tls is not None else None,
    )
    settings = SandboxSettings(
        profile=profile,
        nodes=tuple(range(1, brokers + 1)),
        listeners=(listener,),
        users=dict(users or {}),
        authorizer=authorizer,
        cluster_id=cluster_id,
        state_file=state_file,
    )
    async with Sandbox(settings) as sandbox:
        if on_ready is not None:
            on_ready(sandbox.bootstrap())
        await asyncio.get_running_loop().create_future()
