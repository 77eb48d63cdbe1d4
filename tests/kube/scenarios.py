"""One resource for each row of the table of reasons, with the status that the operator writes for it."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.errors import (
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    ConnectError,
    CredentialsError,
    Forbidden,
    InventoryError,
    InventoryLocked,
    KquotaError,
    KubernetesUnavailable,
    ProtocolError,
    StalePlan,
    TlsError,
    UnsupportedVersion,
    WrongCluster,
)
from reconciler.kube.configuration.cluster_references import cluster_problems
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.configuration.namespace_limits import NamespaceLimits
from reconciler.kube.status.client_quota import document_status
from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.key_status import KeyStatusIndex
from reconciler.kube.status.quota_cluster import cluster_status
from reconciler.kube.status.reasons import Reason
from reconciler.kube.status.reconcile_result import ReconcileResult
from reconciler.manifest.project.cluster import from_spec
from reconciler.quota.entity import entity
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.guards import Guards
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import NewOverride
from tests.fakes.cluster import LOST
from tests.kube.worlds import KubeWorld, quota_cluster, resource, seen
from tests.reconcile.scenarios import ALICE, ALICE_SHOP, BOB, RATE, state

NOW = 1_700_000_000.0
HOME = entity(ip="::1")
DOCUMENT = "team/a"
CREATED = resource("a", ALICE, {RATE: 4096})
SELECTING = {
    **CREATED,
    "spec": {
        "clusterSelector": {"matchLabels": {"region": "eu"}},
        "entity": CREATED["spec"]["entity"],
        "limits": CREATED["spec"]["limits"],
    },
}
OLDEST = resource("oldest", BOB, {RATE: 4096}, created="2020-01-01T00:00:00Z")
TENANTS = [{"namespaces": ["team"], "entities": [{"user": {"exact": "bob"}}], "allow": ["Suspend"]}]

ERRORS: Mapping[Reason, KquotaError] = {
    Reason.SECRET_INVALID: CredentialsError("ca.crt is no PEM"),
    Reason.WRONG_CLUSTER: WrongCluster("y answers", expected="x", actual="y"),
    Reason.AUTHENTICATION_FAILED: AuthenticationError("wrong password", node="b1:9092"),
    Reason.AUTHORIZATION_FAILED: AuthorizationError("no DescribeConfigs", code=31),
    Reason.TLS_FAILED: TlsError("certificate expired", node="b1:9092"),
    Reason.UNSUPPORTED_BROKER: UnsupportedVersion("older than 2.6", api="DescribeClientQuotas"),
    Reason.RECORDS_UNREADABLE: InventoryError("ConfigMap x is damaged"),
    Reason.OTHER_QUOTA_CLUSTER: InventoryLocked("another QuotaCluster manages it"),
    Reason.KUBERNETES_REFUSED: Forbidden("may not list clientquotas", status=403),
    Reason.FAILED: ProtocolError("a byte too many", node="b1:9092"),
    Reason.KUBERNETES_UNAVAILABLE: KubernetesUnavailable("no answer"),
    Reason.BROKER_UNAVAILABLE: ConnectError("no broker answers", node="b1:9092"),
}


def kube_world(live=None, *objects, **spec) -> KubeWorld:
    world = KubeWorld(live, **spec)
    world.put(*(objects or (CREATED,)))
    return world


def ran(
    world: KubeWorld, document: str = DOCUMENT, passes: int = 1, **orders: Any
) -> dict[str, Any]:
    """The document after some reconciliations."""
    for _ in range(passes):
        world.run(**orders)
        world.clock.advance(100)
    return world.objects.get(document, {})


def failed(error: KquotaError) -> dict[str, Any]:
    """A document whose cluster's reconciliation failed."""
    standing = assess_eligibility(
        seen(CREATED), {"prod": from_spec("prod", {"bootstrapServers": "b:1"})}
    )
    status = document_status(
        standing,
        key_statuses=KeyStatusIndex(
            Reconciliation(cluster="prod", error=error),
            losses={},
            owned=OwnershipRecords(cluster_id="", is_known=False),
        ),
        previous={},
        now=NOW,
    )
    return {**CREATED, "status": status}


def standing_alone(
    clusters: Mapping[str, Any], *unusable: str, obj: dict[str, Any] = CREATED
) -> dict[str, Any]:
    """A document of a cluster without reconciliations."""
    standing = assess_eligibility(seen(obj), clusters, unusable=unusable)
    return {**obj, "status": document_status(standing, previous={}, now=NOW)}


def _deleting() -> dict[str, Any]:
    world = kube_world(None, resource("a", ALICE, {RATE: 4096}, deletionPolicy="Delete"))
    world.run()
    world.guards = Guards(max_removals=0)
    world.delete(DOCUMENT, finalizer=True)
    return ran(world)


def _guard() -> dict[str, Any]:
    world = kube_world(None, resource("a", ALICE, {RATE: 4096}), guards=None)
    world.run()
    world.put(resource("a", ALICE, {RATE: 40960000}))
    return ran(world)


def _meddled(**spec: Any) -> KubeWorld:
    world = kube_world(None, **spec)
    world.run()
    meddle(world)
    return world


def meddle(world: KubeWorld, value: float = 9999.0) -> None:
    """Another writer changes the value."""
    world.kafka.write(ALICE, RATE, value)


def _fought() -> dict[str, Any]:
    world = _meddled(driftDetection="Correct")
    for number in range(6):
        world.run()
        world.clock.advance(10)
        meddle(world, 9999.0 + number)
    return ran(world)


def _rejected() -> dict[str, Any]:
    world = kube_world()
    world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no such thing")
    return ran(world)


def _unknown() -> dict[str, Any]:
    world = kube_world()
    world.kafka.faults.unknown[ALICE] = LOST
    return ran(world)


def _held() -> dict[str, Any]:
    world = kube_world(None, CREATED, resource("closer", ALICE_SHOP, {RATE: 2048}))
    world.kafka.faults.rejected[ALICE_SHOP] = (42, "INVALID_REQUEST", "no")
    return ran(world)


def _overridden() -> dict[str, Any]:
    order = NewOverride(
        entity=ALICE, key=RATE, value=8192.0, until=NOW + 9000, principal="me", reason="night"
    )
    return ran(kube_world(), overrides=(order,))


def _conflict() -> dict[str, Any]:
    younger = resource("b", ALICE, {RATE: 5000}, created="2025-01-01T00:00:00Z")
    return ran(kube_world(None, CREATED, younger), "team/b")


def _pending() -> dict[str, Any]:
    standing = assess_eligibility(
        seen(CREATED), {"prod": from_spec("prod", {"bootstrapServers": "b:1"})}
    )
    return {**CREATED, "status": document_status(standing, previous={}, now=NOW)}


DOCUMENTS: Mapping[Reason, Callable[[], dict[str, Any]]] = {
    **{reason: lambda error=error: failed(error) for reason, error in ERRORS.items()},
    Reason.DELETING: _deleting,
    Reason.NAMESPACE_LIMIT: lambda: ran(
        kube_world(None, OLDEST, CREATED, limits=NamespaceLimits(documents=1))
    ),
    Reason.INVALID: lambda: ran(kube_world(None, resource("a", ALICE, {RATE: -1}))),
    Reason.NO_CLUSTER_SELECTED: lambda: standing_alone({}, obj=SELECTING),
    Reason.CLUSTER_NOT_FOUND: lambda: standing_alone({}),
    Reason.CLUSTER_INVALID: lambda: standing_alone({}, "prod"),
    Reason.NOT_GRANTED: lambda: ran(kube_world(tenants=TENANTS)),
    Reason.OUT_OF_SCOPE: lambda: ran(kube_world(scope=[{"user": {"exact": "bob"}}])),
    Reason.SUSPENDED: lambda: ran(
        kube_world(None, resource("a", ALICE, {RATE: 4096}, suspend=True))
    ),
    Reason.CLUSTER_SUSPENDED: lambda: ran(kube_world(suspend=True)),
    Reason.CONFLICT: _conflict,
    Reason.BROKER_REJECTED: _rejected,
    Reason.GUARD_REFUSED: _guard,
    Reason.FOUGHT_OVER: _fought,
    Reason.OUTCOME_UNKNOWN: _unknown,
    Reason.HELD: _held,
    Reason.PENDING: _pending,
    Reason.DRIFTED: lambda: ran(_meddled()),
    Reason.OBSERVE_ONLY: lambda: ran(kube_world(policy="Observe")),
    Reason.POLICY_RESTRICTED: lambda: ran(kube_world({ALICE: {RATE: 5000.0}}, policy="CreateOnly")),
    Reason.OVERRIDE_ACTIVE: _overridden,
    Reason.ENDED: lambda: ran(
        kube_world(None, resource("a", ALICE, {RATE: 4096}, until="2020-01-01T00:00:00Z"))
    ),
    Reason.SYNCED: lambda: ran(kube_world()),
}
"""A ClientQuota for each of its reasons."""


def _cluster_failed(error: KquotaError, **spec: Any) -> dict[str, Any]:
    obj = quota_cluster(**spec)
    report = Reconciliation(cluster="prod", error=error)
    return {**obj, "status": cluster_status_of(obj, report)}


def cluster_status_of(
    obj: dict[str, Any],
    report: Reconciliation,
    *,
    now: float = NOW,
    owned: OwnershipRecords | None = None,
    secret: SecretState | None = None,
) -> dict[str, Any]:
    """The status of a QuotaCluster after a reconciliation without documents."""
    result = ReconcileResult(obj=seen(obj), report=report, secret=secret or SecretState())
    return cluster_status(result, owned=owned or OwnershipRecords(cluster_id=""), now=now)


def _faulty(**spec: Any) -> dict[str, Any]:
    problems = cluster_problems(seen(quota_cluster(**spec)))
    return _cluster_failed(ConfigError("; ".join(problems)), **spec)


def _withheld_removals() -> dict[str, Any]:
    world = kube_world(None, resource("a", ALICE, {RATE: 4096}, deletionPolicy="Delete"))
    world.run()
    world.guards = Guards(max_removals=0)
    world.delete(DOCUMENT, finalizer=False)
    world.run()
    return world.obj


def _unsent() -> dict[str, Any]:
    world = kube_world()
    world.kafka.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    world.run()
    return world.obj


def _incomplete() -> dict[str, Any]:
    world = kube_world(None, resource("a", ALICE, {RATE: 4096}, deletionPolicy="Delete"))
    world.run()
    world.delete(DOCUMENT, finalizer=False)
    world.run(complete=False)
    return world.obj


def _rotated() -> dict[str, Any]:
    obj = quota_cluster()
    use = SecretState(version="7", rejected_version="8", problem=ConfigError("wrong password"))
    world = kube_world()
    report = world.run()
    return {**obj, "status": cluster_status_of(obj, report, owned=world.owned, secret=use)}


def _cluster_after(world: KubeWorld) -> dict[str, Any]:
    world.run()
    return world.obj


CLUSTERS: Mapping[Reason, Callable[[], dict[str, Any]]] = {
    **{reason: lambda error=error: _cluster_failed(error) for reason, error in ERRORS.items()},
    Reason.INVALID: lambda: _faulty(policy="Everything"),
    Reason.REFERENCE_REFUSED: lambda: _faulty(properties={"sasl.password": "${env:PASSWORD}"}),
    Reason.SUSPENDED: lambda: _cluster_after(kube_world(suspend=True)),
    Reason.SECRET_REJECTED: _rotated,
    Reason.GUARD_REFUSED: _withheld_removals,
    Reason.LISTING_INCOMPLETE: _incomplete,
    Reason.PENDING: lambda: _cluster_failed(StalePlan("changed meanwhile")),
    Reason.OBSERVE_ONLY: lambda: _cluster_after(kube_world(policy="Observe")),
    Reason.CHANGES_UNSENT: _unsent,
    Reason.SYNC_NOT_CONFIRMED: lambda: _cluster_after(
        kube_world(policy="Sync", expectedClusterId="fake-cluster")
    ),
    Reason.SYNCED: lambda: _cluster_after(kube_world()),
}
"""A QuotaCluster for each of its reasons."""

__all__ = ["BOB", "CLUSTERS", "DOCUMENTS", "ERRORS", "kube_world", "meddle", "ran", "state"]
