"""Inputs of a run: its adapters as ports, and its options; also builds the overrides of a rollback."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from reconciler.base.protocols import Clock, Progress
from reconciler.ports import AuditLog, Inventory, QuotaStore, Validator
from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.guards import Guards
from reconciler.quota.planner.plan import PlanRemainder, QuotaChange
from reconciler.quota.policy import Rules
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import RunOrigin
from reconciler.quota.rule_warnings import NO_SETTINGS, WarningSettings


class ValidationMode(StrEnum):
    """How to find out whether the broker would accept a plan."""

    AUTO = "auto"
    BROKER = "broker"
    SANDBOX = "sandbox"
    NONE = "none"


class ReconcilePorts(Struct, frozen=True, kw_only=True):
    """The adapters that the composition root selected."""

    store: QuotaStore  # the cluster
    inventory: Inventory  # the ownership records; opened for writing if the run may write
    clock: Clock  # wall clock and monotonic clock
    audit: AuditLog | None = None  # the audit log; None = no audit log
    validator: Validator | None = None  # Kafka's rules without a broker; None = not available
    locks_records: bool = True  # whether loading the records locks them, as in a run that may write
    # Called with the phases `describe`, `validate`, `apply`, `visible` and counts.
    progress: Progress = lambda _phase, _done, _total: None


class NewOverride(Struct, frozen=True, kw_only=True):
    """An override that this run begins."""

    entity: Entity
    key: Key
    value: float | None  # the temporary value; None = not set
    until: float  # seconds since the epoch
    principal: str  # the person who requests it
    reason: str
    # For a rollback: the change that it takes back, with the record from before. A change of the declared value ends it.
    rolls_back: QuotaChange | None = None


class ReconcileOptions(Struct, frozen=True, kw_only=True):
    """The options of a run, all from the trusted configuration."""

    rules: Rules = field(default_factory=Rules)  # policy, drift mode, scope and other rules
    guards: Guards = field(default_factory=Guards)  # the bounds on one plan
    expected_cluster_id: str | None = None  # the id that the cluster must have; None = any
    # Cluster id for which Sync is confirmed, as an alternative to `rules.sync_confirmed`.
    confirm_sync: str | None = None
    # How to find out whether the broker would accept the plan.
    validation: ValidationMode = ValidationMode.AUTO
    # Which pairs may be written; None = all. Other pairs and their records stay unchanged.
    only: Callable[[Entity, Key], bool] | None = None
    # Findings and counts of the entities that documents, records and store leave out.
    remainder: PlanRemainder = field(default_factory=PlanRemainder)
    overrides: tuple[NewOverride, ...] = ()  # overrides that begin with this run
    ended: frozenset[Pair] = frozenset()  # pairs whose override ends now
    # Principals for the impact, in addition to those that the observation finds.
    known_principals: tuple[Principal, ...] = ()
    # Whether to compute the impact on clients; it costs as much as the plan itself.
    assess: bool = True
    advise: bool = True  # whether to compute warnings about the documents' rules
    # The principal of kquota, for the warning that a plan limits it.
    own_principal: Principal | None = None
    # Wait after each request until it is visible; above 50,000 changed keys this is always done.
    pace: bool = False
    warnings: WarningSettings = NO_SETTINGS  # what the trusted project decides about warnings
    origin: RunOrigin = field(default_factory=RunOrigin)  # author and source of the run


LONGEST_SECONDS: Final = 86_400.0
"""Longest duration of a rollback: one day. After that, the documents apply again."""


def rollback_orders(
    changes: Iterable[QuotaChange],
    *,
    now: float,
    principal: str,
    reason: str,
    seconds: float = LONGEST_SECONDS,
) -> tuple[NewOverride, ...]:
    """Return overrides that restore earlier values and records; pass them to ``prepare`` as ``ReconcileOptions.overrides``.

    Args:
        changes: Changes of an outcome that may have been written.
        now: Seconds since the epoch.
        principal: The person who requests it.
        reason: The reason given.
        seconds: Duration; at most one day is used.
    """
    return tuple(
        NewOverride(
            entity=change.entity,
            key=change.key,
            value=change.before,
            until=now + min(seconds, LONGEST_SECONDS),
            principal=principal,
            reason=reason,
            rolls_back=change,
        )
        for change in changes
    )
