"""The ports of one run: client, records, clock, audit log, Kafka's rules, progress."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.app.clusters.record_stores import (
    open_records,
    project_inventory,
    read_only_inventory,
)
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices, TextReceiver
from reconciler.app.requests import RecordSource
from reconciler.base.clock import SystemClock
from reconciler.errors import WrongCluster
from reconciler.inventory.file import FileInventory
from reconciler.inventory.memory import MemoryInventory
from reconciler.ports import Inventory
from reconciler.quota.entity import Entity
from reconciler.quota.outcome import Alteration, Result
from reconciler.quota.precedence import Principal
from reconciler.quota.state import Cluster
from reconciler.reconcile import ReconcilePorts

if TYPE_CHECKING:
    from reconciler.client import ClientConfig, QuotaClient
    from reconciler.client.events import ResponseReceived
    from reconciler.inventory.audit_log import FileAuditLog


class Runtime(Struct, frozen=True, kw_only=True):
    """The ports of one run; ``client`` is the store in ``ports``."""

    ports: ReconcilePorts
    client: "QuotaClient"
    config: "ClientConfig"
    # Releases the lock of the records until they are loaded again, so that others may write them meanwhile.
    unlock: Callable[[], None]

    @property
    def own_principal(self) -> Principal | None:
        """Our principal in the cluster, if the login shows it."""
        return own_principal(self.config)


def own_principal(config: "ClientConfig") -> Principal | None:
    """Return our principal in a cluster, if the login shows it."""
    user = getattr(config.sasl, "username", None)
    return None if user is None else Principal(user=user, client_id=config.client_id)


def _do_nothing() -> None:
    """Keep no lock."""


@contextlib.asynccontextmanager
async def open_runtime(
    notices: Notices,
    target: ClusterTarget,
    records: RecordSource,
    *,
    command: str,
    writes: bool,
    answered: "Callable[[ResponseReceived], None] | None" = None,
    config: "ClientConfig | None" = None,
) -> AsyncIterator[Runtime]:
    """Open everything that a run needs, and close it at the end.

    Args:
        command: Name of the command, for the lock.
        writes: Whether records may be written; then they are locked before the first observation.
        answered: Called with each answer of a broker.
        config: The client's settings; ``None`` = those of the target.

    Raises:
        ConfigError: A client setting is invalid.
    """
    from reconciler.app.clusters.connection import connection_events
    from reconciler.client import QuotaClient

    clock = SystemClock()
    config = target.client_config(notices) if config is None else config
    with contextlib.ExitStack() as stack:
        inventory: Inventory
        if records.no_inventory:
            inventory = MemoryInventory()
        elif writes:
            inventory = stack.enter_context(open_records(target, clock, command=command))
        else:
            inventory = read_only_inventory(target, clock)
        unlock = inventory.close if isinstance(inventory, FileInventory) else _do_nothing
        if not records.any_project:
            inventory = project_inventory(target, inventory, takes_over=records.take_over)
        events = connection_events(notices, answered)
        async with QuotaClient(config, events=events) as client:
            ports = ReconcilePorts(
                store=client,
                inventory=inventory,
                clock=clock,
                audit=_audit(target) if writes and not records.no_inventory else None,
                validator=by_rules,
                locks_records=writes,
                progress=notices.progress,
            )
            yield Runtime(ports=ports, client=client, config=config, unlock=unlock)


@contextlib.asynccontextmanager
async def connect_client(
    notices: TextReceiver, target: ClusterTarget
) -> "AsyncIterator[QuotaClient]":
    """Connect a client for the target; it is closed at the end in any case.

    Raises:
        ConfigError: Its settings are invalid.
    """
    from reconciler.app.clusters.connection import connection_events
    from reconciler.client import QuotaClient

    async with QuotaClient(
        target.client_config(notices), events=connection_events(notices)
    ) as client:
        yield client


async def expected_cluster(client: "QuotaClient", target: ClusterTarget) -> Cluster:
    """Return the cluster that answers, if it is the expected one.

    Raises:
        WrongCluster: The cluster id is not the expected one.
        ClientError: No broker answers.
    """
    cluster = await client.cluster()
    expected = target.settings.expected_cluster_id
    if expected is not None and cluster.id != expected:
        raise WrongCluster(
            f"{target.display_name}: cluster {cluster.id} answers, but {expected} is expected",
            expected=expected,
            actual=cluster.id,
            hint="correct bootstrapServers or expectedClusterId; nothing was changed",
        )
    return cluster


def by_rules(line: str, alterations: Sequence[Alteration]) -> Mapping[Entity, Result]:
    """Validate alterations by Kafka's rules of a release line, without a broker."""
    from reconciler.sandbox.broker_rules.offline_validation import validate
    from reconciler.sandbox.broker_rules.profiles import profile_named

    return dict(validate(profile_named(line), alterations))


def _audit(target: ClusterTarget) -> "FileAuditLog":
    from reconciler.app.clusters.record_stores import make_folder
    from reconciler.app.clusters.state_files import own_path
    from reconciler.inventory.audit_log import FileAuditLog

    name = target.project_cluster.audit_log
    path = target.reads.once(
        ("audit log", target.root, name),
        lambda: own_path(target.root, name, content_name="audit logs"),
    )
    # Before anything is sent: a change that cannot be logged must not be made.
    make_folder(path.parent)
    return FileAuditLog(path)
