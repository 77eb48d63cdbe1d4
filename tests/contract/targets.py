"""The targets of the contract: sandboxes of each profile, and real brokers of five versions.

A sandbox runs in a separate thread, so that blocking tests can connect to it; a real broker is shared
with the other tests of the session. Both let `ANONYMOUS` and `admin` do everything over the plain
listener, and know `planner` (DescribeConfigs, Describe), `applier` (AlterConfigs, Describe) and
`nobody's` rights for all other users over the SASL listener.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from reconciler.sandbox import (
    PROFILES,
    READER,
    RECONCILER,
    Authorizer,
    Listener,
    ListenerProtocol,
    Operation,
    Sandbox,
    SandboxSettings,
)
from reconciler.sandbox.sasl_session import MECHANISMS
from tests.cli.brokers import SandboxThread
from tests.contract.raw import RawConnection
from tests.servers import raw_quotas
from tests.servers.properties import USERS

T = TypeVar("T")

ALL = frozenset(Operation)
AUTHORIZER = Authorizer(
    grants={"ANONYMOUS": ALL, "admin": ALL, "planner": READER, "applier": RECONCILER}
)
REAL = ("3.4.1", "3.9.1", "4.0.1", "4.3.1", "4.4.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server of Kafka's protocol."""

    name: str  # `sandbox-3.9`, `kafka-4.0.1`
    lines: tuple[str, ...]  # applicable keys of expectation tables, the most specific first
    port: int  # plain listener
    sasl_port: int  # listener with SASL over plain text
    users: Mapping[str, str]  # passwords by name
    mechanisms: tuple[str, ...]  # mechanisms of the SASL listener
    cluster_id: str  # the configured id
    sandbox: Sandbox | None = None  # the sandbox itself, for its faults

    def expected(self, table: Mapping[str, T]) -> T:
        """The row's cell for this version; `all` is the cell of versions without their own."""
        return next(table[line] for line in (*self.lines, "all") if line in table)

    def connect(self, *, seconds: float = 60.0) -> RawConnection:
        """A connection with all rights."""
        return RawConnection(self.port, seconds=seconds)

    @contextmanager
    def login(self, user: str, *, seconds: float = 60.0) -> Iterator[RawConnection]:
        """A connection of one user."""
        with RawConnection(self.sasl_port, seconds=seconds) as connection:
            assert connection.plain(user, self.users[user]).error_code == 0
            yield connection

    def clear(self) -> None:
        """Remove every quota and wait until the removal is visible."""
        raw_quotas.clear(self.port)


def lines_of(version: str) -> tuple[str, ...]:
    """`3.4.1` belongs to 3.4; 4.0 to 4.3 belong to 4.x unless a table has their own column."""
    if version.startswith("4."):
        return ("4.x",) if version >= "4.4" else ("4.0-4.3", "4.x")
    return (version.rpartition(".")[0],)


def mechanisms_of(line: str) -> tuple[str, ...]:
    """KRaft brokers have SCRAM users from 3.5 on (KIP-900)."""
    return ("PLAIN",) if line == "3.4" else MECHANISMS


def sasl_listener(line: str) -> Listener:
    """The SASL listener of a sandbox."""
    return Listener(
        name="SASL", protocol=ListenerProtocol.SASL_PLAINTEXT, mechanisms=mechanisms_of(line)
    )


@contextmanager
def sandbox_target(name: str) -> Iterator[Target]:
    """A sandbox with that profile, in a separate thread."""
    settings = SandboxSettings(
        profile=PROFILES[name],
        users=USERS,
        authorizer=AUTHORIZER,
        listeners=(Listener(), sasl_listener(name)),
    )
    with running(Sandbox(settings)) as sandbox:
        yield Target(
            name=f"sandbox-{name}",
            lines=("4.0-4.3", "4.x") if name == "4.3" else (name,),
            port=sandbox.port(),
            sasl_port=sandbox.port(listener="SASL"),
            users=USERS,
            mechanisms=mechanisms_of(name),
            cluster_id=sandbox.cluster_id,
            sandbox=sandbox,
        )


@contextmanager
def running(sandbox: Sandbox) -> Iterator[Sandbox]:
    """Serve `sandbox` in another thread during the `with` block."""
    with SandboxThread(sandbox):
        yield sandbox
