"""The ports of one run: client, ownership records (a file, a git ref or none), clock, audit log, Kafka's rules, progress."""

import contextlib
import getpass
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.app.clusters.state_files import own_path
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notices, TextReceiver
from reconciler.app.requests import RecordUse
from reconciler.base.clock import SystemClock
from reconciler.base.durable_files import make_private_folder
from reconciler.base.protocols import Clock
from reconciler.errors import ConfigError, InventoryError, WrongCluster
from reconciler.inventory.file import FileInventory, RecordsFile
from reconciler.inventory.memory import FixedInventory, MemoryInventory
from reconciler.inventory.project_records import ProjectInventory
from reconciler.ports import Inventory
from reconciler.quota.entity import Entity
from reconciler.quota.precedence import Principal
from reconciler.quota.state import Alteration, Cluster, Result
from reconciler.reconcile import ReconcilePorts

if TYPE_CHECKING:
    from reconciler.client import ClientConfig, QuotaClient
    from reconciler.client.events import ResponseReceived
    from reconciler.inventory.audit_log import FileAuditLog
    from reconciler.inventory.git_ref import RefInventory


def read_only_inventory(target: ClusterTarget, clock: Clock) -> Inventory:
    """Return the records of a target, without a lock; none if its configuration is not trusted.

    Raises:
        ConfigError: They are part of a commit that is not trusted.
    """
    place = target.project_cluster.inventory
    if not target.is_trusted:
        return MemoryInventory()
    if place.git_ref is not None:
        return _ref(target, place.git_ref)
    assert place.file is not None  # noqa: S101 - exactly one of the two is set
    name = _name_at_revision(target, place.file)
    if target.files is not None and name is not None:
        location = f"{place.file} at {target.files.revision}"
        return FixedInventory(target.files.content(name), location=location)
    return FileInventory(_records_file(target, place.file), clock=clock)


def check_records(notices: TextReceiver, target: ClusterTarget) -> None:
    """Warn if a trusted revision leaves a plan without records, so that every limit counts as unmanaged."""
    place = target.project_cluster.inventory
    if target.files is None or place.file is None:
        return
    name = _name_at_revision(target, place.file)
    if name is not None and target.files.content(name) is None:
        notices.warning(
            f"there are no records of {target.display_name}: {place.file} lies in the checkout, which is not trusted with"
            " --config-from, so every limit is treated as unmanaged"
        )
        notices.hint(
            "keep records under inventory: {gitRef: refs/kquota/inventory}, or in a file outside of the checkout"
        )


def _name_at_revision(target: ClusterTarget, file: str) -> str | None:
    """Return the name of the records in the trusted revision; ``None`` if they are outside, or there is no revision."""
    return None if target.files is None else target.files.name_of(target.root / file)


def _records_file(target: ClusterTarget, file: str) -> RecordsFile:
    """Return the file, which the clusters of a run share."""
    return target.reads.once(
        ("records", target.root, file),
        lambda: RecordsFile(own_path(target.root, file, content_name="records")),
    )


def recorded_cluster(target: ClusterTarget) -> str | None:
    """Return the id of the cluster that the records in the target's file are of; ``None`` = of none.

    Raises:
        InventoryError: They cannot be read, or are of several clusters.
    """
    file = target.project_cluster.inventory.file
    if file is None:
        return None
    return _records_file(target, file).cluster_of(target.project_cluster.project)


@contextlib.contextmanager
def open_records(target: ClusterTarget, clock: Clock, *, command: str) -> Iterator[Inventory]:
    """Open the records of a target for writing; the lock is released at the end.

    Args:
        command: Name of the command, for the message to a second writer.

    Raises:
        ConfigError: They are in a checkout that is not trusted, or are part of a commit.
    """
    place = target.project_cluster.inventory
    if place.git_ref is not None:
        yield _ref(target, place.git_ref, f"kquota {command}")
        return
    assert place.file is not None  # noqa: S101 - exactly one of the two is set
    if _name_at_revision(target, place.file) is not None:
        raise ConfigError(
            f"the records of {target.display_name} cannot be written: {place.file} lies in the checkout, which is not trusted"
            " with --config-from",
            hint="keep them under inventory: {gitRef: refs/kquota/inventory} or in a file outside of the checkout, or"
            " leave out --config-from where the checkout is trusted",
        )
    file = _records_file(target, place.file)
    make_folder(file.path.parent)
    with FileInventory(file, clock=clock, command=f"kquota {command}") as inventory:
        yield inventory


def project_inventory(
    target: ClusterTarget, inventory: Inventory, *, takes_over: bool = False
) -> Inventory:
    """Return the records of the project of a target; those of another project are refused, unless they are taken over."""
    cluster, place = target.project_cluster, target.project_cluster.inventory
    location = place.git_ref or str(target.root / str(place.file))
    return ProjectInventory(inventory, cluster.project, location=location, takes_over=takes_over)


def make_folder(folder: Path) -> None:
    """Create the folder of the records, private to its owner: they contain names and limits.

    Raises:
        InventoryError: It cannot be created.
    """
    try:
        make_private_folder(folder)
    except OSError as error:
        raise InventoryError(f"{folder} cannot be created: {error.strerror}") from error


def current_principal() -> str:
    """Return the person or job that runs this, for audit log and overrides."""
    import os

    for variable in ("GITHUB_ACTOR", "GITLAB_USER_LOGIN", "KQUOTA_WHO"):
        if os.environ.get(variable):
            return os.environ[variable]
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def _ref(target: ClusterTarget, ref: str, command: str = "") -> "RefInventory":
    from reconciler.git.refs import GitRefs
    from reconciler.inventory.git_ref import RefInventory

    return RefInventory(GitRefs(top=target.root), prefix=ref, command=command)


class Runtime(Struct, frozen=True, kw_only=True):
    """The ports of one run; ``client`` is the store in ``ports``."""

    ports: ReconcilePorts
    client: "QuotaClient"
    # Releases the lock of the records until they are loaded again, so that others may write them meanwhile.
    unlock: Callable[[], None]
    own_principal: Principal | None = None  # our principal in the cluster, if the login shows it
    # The cluster that must answer; None = any, because nothing was applied yet and no id is configured.
    expected_cluster_id: str | None = None


def _own_principal(config: "ClientConfig") -> Principal | None:
    user = getattr(config.sasl, "username", None)
    return None if user is None else Principal(user=user, client_id=config.client_id)


def _do_nothing() -> None:
    """Keep no lock."""


@contextlib.asynccontextmanager
async def open_runtime(
    notices: Notices,
    target: ClusterTarget,
    records: RecordUse,
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
        if records is RecordUse.NONE:
            inventory = MemoryInventory()
        elif writes:
            inventory = stack.enter_context(open_records(target, clock, command=command))
        else:
            inventory = read_only_inventory(target, clock)
        unlock = inventory.close if isinstance(inventory, FileInventory) else _do_nothing
        if records in {RecordUse.OWN, RecordUse.TAKE_OVER}:
            takes_over = records is RecordUse.TAKE_OVER
            inventory = project_inventory(target, inventory, takes_over=takes_over)
        events = connection_events(notices, answered)
        async with QuotaClient(config, events=events) as client:
            ports = ReconcilePorts(
                store=client,
                inventory=inventory,
                clock=clock,
                audit=_audit(target) if writes and records is not RecordUse.NONE else None,
                validator=by_rules,
                locks_records=writes,
                progress=notices.progress,
            )
            yield Runtime(
                ports=ports,
                client=client,
                unlock=unlock,
                own_principal=_own_principal(config),
                expected_cluster_id=target.settings.expected_cluster_id,
            )


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
