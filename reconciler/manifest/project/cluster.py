"""A QuotaCluster, from checked JSON to values: connection, policy, guards and tenants of a cluster."""

import math
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from msgspec import Struct

from reconciler.base.redaction import QuietRepr
from reconciler.errors import QuotaValueError
from reconciler.manifest import quantity
from reconciler.manifest.rules.client_quota import rate, seconds_of
from reconciler.quota.grants import Permission, TenantGrant, granted_ranges
from reconciler.quota.keys import FIELDS, Key
from reconciler.quota.patterns import EVERYTHING, EntityForm, EntityPattern, NamePattern
from reconciler.quota.planner.budgets import Budget, BudgetMeasure, BudgetMode
from reconciler.quota.planner.guards import Guards, NewlyUnlimited, Protection, RemovalApproval
from reconciler.quota.planner.value_ranges import ValueRange
from reconciler.quota.policy import DriftMode, IgnoreRule, Policy, Rules

# A spec that its schema has accepted.
Spec: TypeAlias = Mapping[str, Any]

DEFAULT_INTERVAL: Final = 120.0
LEAST_SECONDS: Final = 1.0
"""Minimum of ``interval``: ``0s`` means hardly any time."""

_UNITS: Final = {"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)}


class Grant(Struct, frozen=True, kw_only=True, gc=False):
    """One tenant, and the paths of its documents."""

    tenant: TenantGrant
    # Folders, relative to the project file; empty = anywhere, as the folder `.` of the project file itself.
    paths: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        """Whether a file may contain documents of this tenant."""
        return not self.paths or any(
            folder in {".", path} or path.startswith(folder + "/") for folder in self.paths
        )


class QuotaCluster(QuietRepr, Struct, frozen=True, kw_only=True, gc=False):
    """One configured cluster."""

    name: str
    # Client properties as written, references unresolved, `bootstrap.servers` included; hidden, because they may
    # contain secrets.
    properties: Mapping[str, str]
    properties_file: str | None  # a `.properties` file, relative to the project file; None = none
    expected_cluster_id: str | None
    confirm_sync: str | None  # the id for which Sync was confirmed
    policy: Policy  # as configured; Sync acts as Upsert until it is confirmed
    drift: DriftMode
    suspend: bool
    interval: float  # seconds between two reconciliations of a loop
    scope: tuple[EntityPattern, ...]  # the managed entities; empty = all
    ignore: tuple[IgnoreRule, ...]  # pairs whose differences are ignored and never written
    guards: Guards
    grants: tuple[Grant, ...]  # the tenants; empty = every document may declare everything
    operator_class: str  # class of the operator for this cluster; "" = the one without a class
    telemetry: Spec  # the source of recorded usage, as written
    broker_capacity: Spec  # the capacity of one broker, as written
    # The Secret with more client properties, in the operator's namespace; None = none.
    secret_name: str | None = None

    @property
    def sync_confirmed(self) -> bool:
        """Whether Sync was confirmed for the expected cluster."""
        return self.confirm_sync is not None and self.confirm_sync == self.expected_cluster_id

    def rules(
        self,
        *,
        policy: Policy | None = None,
        drift: DriftMode | None = None,
        complete: bool = True,
        configured: bool = True,
        removals_known: bool = True,
        force: bool = False,
    ) -> Rules:
        """Return the rules of the planner; a suspended cluster is only observed, whatever the arguments.

        Args:
            policy: Replaces the configured one; the caller has checked that it is stricter.
            complete: Whether every configured path was read.
            configured: Whether any path is configured.
            removals_known: Whether an inventory or a revision records the owned pairs.
            force: Also remove pairs that another writer changed.
        """
        requested = self.policy if policy is None else policy
        return Rules(
            policy=Policy.OBSERVE if self.suspend else requested,
            sync_confirmed=self.sync_confirmed,
            drift=self.drift if drift is None else drift,
            scope=self.scope,
            ignore=self.ignore,
            complete=complete,
            configured=configured,
            removals_known=removals_known,
            force=force,
        )


def from_spec(name: str, spec: Spec) -> QuotaCluster:
    """Return the cluster of an accepted spec."""
    guards = spec.get("guards", {})
    grants = tuple(_grant(tenant_spec) for tenant_spec in spec.get("tenants", ()))
    return QuotaCluster(
        name=name,
        properties={key: str(value) for key, value in spec.get("properties", {}).items()}
        | {"bootstrap.servers": spec["bootstrapServers"]},
        properties_file=spec.get("propertiesFile"),
        # Who confirms Sync for a cluster expects that cluster.
        expected_cluster_id=spec.get("expectedClusterId", spec.get("confirmSync")),
        confirm_sync=spec.get("confirmSync"),
        policy=Policy(spec.get("policy", Policy.UPSERT)),
        drift=DriftMode(spec.get("driftDetection", DriftMode.WARN)),
        suspend=spec.get("suspend", False),
        interval=max(seconds(spec["interval"]), LEAST_SECONDS)
        if "interval" in spec
        else DEFAULT_INTERVAL,
        scope=tuple(pattern_of(pattern_spec) for pattern_spec in spec.get("scope", ())),
        ignore=tuple(
            IgnoreRule(
                entities=pattern_of(rule),
                reason=rule["reason"],
                keys=frozenset(Key(key) for key in rule.get("keys", ())),
                until=seconds_of(rule["until"]) if "until" in rule else None,
            )
            for rule in spec.get("ignore", ())
        ),
        guards=_guards(
            guards, granted_ranges(grant.tenant for grant in grants), spec.get("budgets", ())
        ),
        grants=grants,
        operator_class=spec.get("operatorClass", ""),
        telemetry=spec.get("telemetry", {}),
        broker_capacity=spec.get("brokerCapacity", {}),
        secret_name=spec.get("secretRef", {}).get("name"),
    )


def capacity_number(name: str, value: str | float) -> int:
    """Return a number of ``brokerCapacity``: bytes per second, or millionths for ``headroom``.

    Raises:
        QuotaValueError: It is not above zero, or not a whole number.
    """
    number = (
        round(float(value) * 1_000_000)
        if name == "headroom"
        else quantity.parse_integer(str(value))
    )
    if number < 1:
        raise QuotaValueError(f"{value} is not above 0; leave it out if it is not known")
    return number


def seconds(duration: str) -> float:
    """Return the seconds of a duration such as ``1h30m``."""
    parts = re.findall(r"([0-9]+)(ms|[smh])", duration)
    return float(sum(int(count) * _UNITS[unit] for count, unit in parts))


def bounds_of(limits: Spec, entities: EntityPattern = EVERYTHING) -> tuple[ValueRange, ...]:
    """Return the bounds in a map of key to min and max, in the order of the columns."""
    return tuple(
        ValueRange(
            entities=entities,
            key=key,
            minimum=_number(limits[name].get("min")),
            maximum=_number(limits[name].get("max")),
        )
        for name, key in FIELDS.items()
        if name in limits
    )


def _number(value: str | float | None) -> float | None:
    if value is None:
        return None
    return _float(quantity.parse(value) if isinstance(value, str) else value)


def _float(value: Fraction | float) -> float:
    """Return a number as float64: infinite if it is a whole number of more digits."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _name(spec: Spec | None) -> NamePattern | None:
    if spec is None:
        return None
    return NamePattern(exact=spec.get("exact"), prefix=spec.get("prefix"))


def pattern_of(spec: Spec) -> EntityPattern:
    """Return the pattern in a mapping of forms, user, clientId and ip."""
    return EntityPattern(
        forms=frozenset(EntityForm(form) for form in spec.get("forms", ())),
        user=_name(spec.get("user")),
        client_id=_name(spec.get("clientId")),
        ip=_name(spec.get("ip")),
    )


def _pattern_or_all(spec: Spec) -> EntityPattern:
    has_conditions = any(spec.get(part) for part in ("forms", "user", "clientId", "ip"))
    return pattern_of(spec) if has_conditions else EVERYTHING


def _guards(spec: Spec, granted: tuple[ValueRange, ...], budgets: Iterable[Spec]) -> Guards:
    usual = Guards()
    return Guards(
        max_removals=spec.get("maxRemovals", usual.max_removals),
        max_removed_percent=_float(spec.get("maxRemovedPercent", usual.max_removed_percent)),
        approved_removals=tuple(
            RemovalApproval(
                namespace=approval["namespace"], until=seconds_of(approval["until"]) or 0.0
            )
            for approval in spec.get("approvedRemovals", ())
        ),
        max_change_factor=_float(spec.get("maxChangeFactor", usual.max_change_factor)),
        newly_unlimited=NewlyUnlimited(spec.get("newlyUnlimited", usual.newly_unlimited)),
        protect_defaults=spec.get("protectDefaults", usual.protect_defaults),
        protected=tuple(
            Protection(entities=pattern_of(rule_spec), reason=rule_spec.get("reason", ""))
            for rule_spec in spec.get("protected", ())
        ),
        bounds=tuple(
            bound
            for bound_spec in spec.get("bounds", ())
            for bound in bounds_of(bound_spec["limits"], _pattern_or_all(bound_spec))
        ),
        granted=granted,
        budgets=tuple(budget for budget_spec in budgets for budget in _budgets(budget_spec)),
    )


def _budgets(spec: Spec) -> Iterator[Budget]:
    """Yield the budgets of an item, one for each of its keys, in the order of the columns."""
    for name, key in FIELDS.items():
        if name in spec["limits"]:
            yield Budget(
                name=spec["name"],
                key=key,
                amount=rate(key, spec["limits"][name]),
                overcommit=_float(spec.get("overcommit", 1.0)),
                mode=BudgetMode(spec.get("mode", BudgetMode.REPORT)),
                basis=BudgetMeasure(spec.get("basis", BudgetMeasure.PROMISED)),
                namespaces=frozenset(spec.get("namespaces", ())),
                entities=tuple(pattern_of(entity_spec) for entity_spec in spec.get("entities", ())),
                assumed_clients=spec.get("assumedClients", 0),
            )


def _grant(spec: Spec) -> Grant:
    return Grant(
        paths=tuple(posixpath.normpath(path).strip("/") for path in spec.get("paths", ())),
        tenant=TenantGrant(
            namespaces=frozenset(spec["namespaces"]),
            entities=tuple(pattern_of(entity_spec) for entity_spec in spec["entities"]),
            bounds=bounds_of(spec.get("bounds", {})),
            allow=frozenset(Permission(permission) for permission in spec.get("allow", ())),
            priority=spec.get("priority", 0),
        ),
    )
