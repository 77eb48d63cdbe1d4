"""The checks of ``kquota doctor``. Each returns one or more ``Check``; none changes anything.

The brokers' time is not checked: Kafka's protocol does not expose it, so the clock is compared with the newest times
in the ownership records, which other machines may have written.
"""

import asyncio
import os
import shlex
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from typing import Final

from msgspec import Struct

from reconciler.app.change.outcome_files import OUTCOME_FOLDER
from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import TextReceiver
from reconciler.base.clock import SystemClock
from reconciler.base.durable_files import unwritable_place
from reconciler.client import Address, ClientConfig, ClientEvents, QuotaClient, SecurityProtocol
from reconciler.client.events import Authenticated, Connected
from reconciler.errors import AuthorizationError, ClientError, KquotaError
from reconciler.quota.entity import EntityParts, entity, entity_text, parts_text
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.precedence import unranked_entities
from reconciler.quota.state import Cluster, QuotaState, exactly
from reconciler.render.cluster_state import Check, CheckStatus
from reconciler.render.impact_rows import ranking_doubt
from reconciler.render.units import age, count

PATIENCE_SECONDS: Final = 10.0
"""Seconds for one check, unless --timeout is given."""

EXPIRED_OVERRIDES: Final = "expired overrides"
"""Name of the check of expired overrides."""

SKEW_SECONDS: Final = 5.0
"""Maximum seconds by which records may be newer than the local clock; more means that a clock is wrong."""

_READ_TODO: Final = "kafka-acls --add --cluster --allow-principal User:NAME --operation Describe --operation DescribeConfigs"
_WRITE_TODO: Final = (
    "only apply needs it: kafka-acls --add --cluster --allow-principal User:NAME --operation Describe"
    " --operation AlterConfigs"
)


class Checkup(Struct, frozen=True, kw_only=True):
    """All checks of one cluster; ``cluster_id`` is "" if no broker answered."""

    cluster_id: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> bool:
        """Whether a check failed."""
        return any(check.health is CheckStatus.FAILED for check in self.checks)

    @property
    def has_expired_override(self) -> bool:
        """Whether a value of an expired override is still live."""
        return any(
            check.name == EXPIRED_OVERRIDES and check.health is CheckStatus.WARNING
            for check in self.checks
        )


def _ok(name: str, finding: str) -> Check:
    return Check(name=name, health=CheckStatus.OK, observation=finding)


def _warning(name: str, finding: str, advice: str) -> Check:
    return Check(name=name, health=CheckStatus.WARNING, observation=finding, advice=advice)


def _bad(name: str, finding: str, advice: str) -> Check:
    return Check(name=name, health=CheckStatus.FAILED, observation=finding, advice=advice)


def _failed_check(name: str, error: KquotaError, advice: str = "") -> Check:
    return _bad(name, error.message, error.hint or advice)


async def check_cluster(notices: TextReceiver, target: ClusterTarget) -> Checkup:
    """Run all checks of one cluster, in the order of their dependencies."""
    try:
        config = target.client_config(notices)
    except KquotaError as error:
        return Checkup(cluster_id="", checks=(_failed_check("configuration", error),))
    patience = target.options.timeout or PATIENCE_SECONDS
    checks = [_ok("configuration", _describe_config(config))]
    checks += [check async for check in _addresses(config)]
    connection_observer = _ConnectionObserver()
    events = ClientEvents(
        connected=connection_observer.connected, authenticated=connection_observer.authenticated
    )
    async with QuotaClient(config, events=events) as client:
        try:
            cluster = await client.cluster(timeout=patience)
        except KquotaError as error:
            checks += [*connection_observer.checks(config), _failed_check("answers", error)]
            return Checkup(cluster_id="", checks=tuple(checks))
        checks += [
            *connection_observer.checks(config),
            *_identity(cluster, target),
        ]
        checks += [check async for check in _brokers(client, cluster, patience)]
        checks += [check async for check in _rights(client, cluster, patience)]
        checks.append(await _callback(client, patience))
        checks += [check async for check in _records(target, client, cluster)]
    return Checkup(cluster_id=cluster.id, checks=tuple(checks))


def _describe_config(config: ClientConfig) -> str:
    login = "" if config.sasl is None else f", {type(config.sasl).__name__}"
    return f"{config.protocol}{login} at {', '.join(map(str, config.bootstrap))}"


async def _addresses(config: ClientConfig) -> AsyncIterator[Check]:
    """Check each bootstrap address: a client needs only one, and hides that another is wrong."""
    for address in config.bootstrap:
        yield await _address(address)


async def _address(address: Address) -> Check:
    name = f"reach {address}"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            address_infos = await loop.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM
            )
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.close()
    except socket.gaierror as error:
        advice = "correct bootstrap.servers, or the name server that this machine asks"
        return _bad(name, f"no address: {error.strerror}", advice)
    except TimeoutError:
        advice = "a firewall drops it, or the host is down"
        return _bad(name, "no answer", advice)
    except OSError as error:
        advice = "check the port, and whether the broker is up"
        return _bad(name, _error_text(error), advice)
    return _ok(name, ", ".join(sorted({str(address_info[4][0]) for address_info in address_infos})))


def _error_text(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


class _ConnectionObserver:
    def __init__(self) -> None:
        self._connected: Connected | None = None
        self._authenticated: Authenticated | None = None

    def connected(self, event: Connected) -> None:
        self._connected = self._connected or event

    def authenticated(self, event: Authenticated) -> None:
        self._authenticated = self._authenticated or event

    def checks(self, config: ClientConfig) -> list[Check]:
        """Return the checks of TLS and SASL that completed; the caller reports failures."""
        checks: list[Check] = []
        tls = config.protocol in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}
        if not tls:
            advice = "set security.protocol to SSL or SASL_SSL, unless this is a trusted network"
            checks.append(
                _warning("TLS", "not used: traffic can be read and changed in transit", advice)
            )
        elif self._connected is not None:
            checks.append(_ok("TLS", self._connected.tls))
        if config.sasl is None and not (tls and config.tls is not None):
            checks.append(_ok("SASL", "not used: the principal is ANONYMOUS"))
        elif self._authenticated is not None:
            life = self._authenticated.lifetime
            ends = f", session of {age(life)}" if life else ""
            checks.append(_ok("SASL", f"{self._authenticated.mechanism}{ends}"))
        return checks


def _identity(cluster: Cluster, target: ClusterTarget) -> list[Check]:
    checks: list[Check] = []
    expected = target.settings.expected_cluster_id
    if expected is not None and expected != cluster.id:
        finding = f"{cluster.id} answers, {expected} is expected"
        advice = "correct bootstrapServers or expectedClusterId"
        checks.append(_bad("cluster", finding, advice))
    elif expected is None and target.project is not None:
        advice = f"set expectedClusterId: {cluster.id}, so that a wrong address is detected"
        checks.append(_warning("cluster", f"{cluster.id}, expectedClusterId is not set", advice))
    else:
        checks.append(_ok("cluster", cluster.id))
    finding = f"Kafka {cluster.version_hint}, rules of {cluster.behaves_as}"
    checks.append(_ok("version", finding))
    return checks


async def _brokers(client: QuotaClient, cluster: Cluster, patience: float) -> AsyncIterator[Check]:
    """Check every broker by its advertised address: verification reads from each of them."""
    probe = exactly(entity(user="kquota-doctor"))
    for node in cluster.nodes:
        name = f"broker {node.id}"
        try:
            await client.describe(probe, node=node.id, timeout=patience)
        except AuthorizationError:
            yield _ok(name, f"{node.host}:{node.port}")
        except ClientError as error:
            advice = f"its advertised listener {node.host}:{node.port} must be reachable from here"
            yield _bad(name, error.message, error.hint or advice)
        else:
            yield _ok(name, f"{node.host}:{node.port}")


_SHOWN_ENTITIES: Final = 3


async def _rights(client: QuotaClient, cluster: Cluster, patience: float) -> AsyncIterator[Check]:
    try:
        state = await client.describe(timeout=patience)
    except KquotaError as error:
        yield _failed_check("may read", error, _READ_TODO)
    else:
        yield _ok("may read", count(len(state.limits), "entity", "entities"))
        for check in _unknown_limits(state):
            yield check
    if cluster.rights is None:
        advice = "grant Describe on the cluster, so that plan can check its permissions"
        yield _warning(
            "may write", "the broker does not report the permissions of the principal", advice
        )
    elif cluster.may_alter:
        yield _ok("may write", "AlterConfigs, which also allows changing broker settings")
    else:
        yield _warning(
            "may write", "AlterConfigs is missing: plan works, apply does not", _WRITE_TODO
        )


def _unknown_limits(state: QuotaState) -> Iterator[Check]:
    """Return a warning for each reason why the limits of some clients are unknown."""
    reasons: dict[str, list[EntityParts]] = {}
    for entity_parts, _ in unranked_entities(state):
        reasons.setdefault(ranking_doubt(entity_parts), []).append(entity_parts)
    for reason, entities in reasons.items():
        text = "; ".join(map(parts_text, entities[:_SHOWN_ENTITIES]))
        more = len(entities) - _SHOWN_ENTITIES
        yield _warning(
            "unknown limits",
            f"{text}{f' and {more} more' if more > 0 else ''}: {reason}",
            "the effective limits of their clients are unknown; kquota resolve and kquota plan list them",
        )


async def _callback(client: QuotaClient, patience: float) -> Check:
    name = "quota callback"
    try:
        callback = await client.quota_callback(timeout=patience)
    except KquotaError as error:
        return _warning(name, error.message, error.hint or _READ_TODO)
    if callback is None:
        return _ok(name, "none: Kafka's own rules apply")
    advice = "ask the authors of the callback how it uses these quotas; kquota resolve shows Kafka's own rules"
    return _warning(name, f"{callback} determines the enforced limits", advice)


async def _records(
    target: ClusterTarget, client: QuotaClient, cluster: Cluster
) -> AsyncIterator[Check]:
    """Check the inventory, its expired overrides, and the local clock against its times."""
    from reconciler.app.clusters.runtime import project_inventory, read_only_inventory

    clock = SystemClock()
    inventory = project_inventory(target, read_only_inventory(target, clock))
    yield _state_folder(target)
    try:
        owned = await inventory.load(cluster.id)
    except KquotaError as error:
        yield _failed_check("records", error)
        return
    if owned.is_known:
        yield _ok("records", count(owned.pair_count, "managed quota key"))
    else:
        advice = "nothing was applied from this project yet; if that is wrong, check the location of the inventory"
        yield _warning("records", "none for this cluster", advice)
    if owned.overrides:
        yield await _overrides(target, client, cluster, owned, clock.now())
    times = [owner.since for record in owned.records.values() for owner in record.owners if owner]
    ahead = max([owned.latest_end, *times]) - clock.now()
    if ahead > SKEW_SECONDS:
        advice = "set the clock (NTP): overrides, plan ages and drift times depend on it"
        yield _warning(
            "clock", f"the records are {age(ahead)} ahead of the clock of this machine", advice
        )
    else:
        yield _ok("clock", "not behind the records")


def _state_folder(target: ClusterTarget) -> Check:
    """Check that this user can write records, audit log and outcomes, and that not every user can."""
    place = target.project_cluster
    files = (place.inventory.file, place.audit_log, f"{OUTCOME_FOLDER}/outcome.json")
    paths = [target.root / file for file in files if file is not None]
    locked = [place for place in map(unwritable_place, paths) if place is not None]
    if locked:
        advice = "only apply, override and rollback need it: let this user write there"
        return _warning("state folder", f"{locked[0]} is not writable", advice)
    links = [path for path in paths[1:] if path.is_symlink()]
    if links:
        return _warning("state folder", f"{links[0]} is a link, which is not followed", "remove it")
    folders = [path.parent for path in paths if path.parent.is_dir()]
    exposed = [folder for folder in folders if folder.stat().st_mode & stat.S_IWOTH]
    if exposed:
        advice = f"records decide what may be removed: chmod o-w {shlex.quote(str(exposed[0]))}"
        return _warning("state folder", f"every user can write {exposed[0]}", advice)
    return _ok("state folder", f"writable: {paths[-1].parent.parent}")


async def _overrides(
    target: ClusterTarget,
    client: QuotaClient,
    cluster: Cluster,
    owned: OwnershipRecords,
    now: float,
) -> Check:
    """Check whether a value of an expired override is still live."""
    from reconciler.app.clusters.documents import documents_or_warning
    from reconciler.app.notices import NoticeLog
    from reconciler.reconcile import Observation
    from reconciler.reconcile.drift import find_expired

    try:
        live = await client.describe(timeout=target.options.timeout or PATIENCE_SECONDS)
    except KquotaError as error:
        return _failed_check(EXPIRED_OVERRIDES, error, _READ_TODO)
    observation = Observation(
        cluster=cluster, cluster_id=cluster.id, live=live, owned=owned, at=now
    )
    documents = documents_or_warning(NoticeLog(), target)
    expired = find_expired(observation, target.settings.rules(), documents)
    pairs = [expired_override.pair for expired_override in expired]
    if not pairs:
        return _ok(EXPIRED_OVERRIDES, f"none of {count(len(owned.overrides), 'override')}")
    entity_name = entity_text(pairs[0][0])
    more_note = f" and {len(pairs) - 1} more" if len(pairs) > 1 else ""
    advice = f"`{target.command('override', 'end', '--expired')}` writes the expected values"
    return _warning(
        EXPIRED_OVERRIDES, f"still live: {entity_name} {pairs[0][1]}{more_note}", advice
    )
