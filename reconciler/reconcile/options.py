"""Inputs of a run: its adapters as ports, and its options; also builds the overrides of a rollback."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from reconciler.base.protocols import Clock, Progress
from reconciler.ports import AuditLog, Inventory, QuotaStore, Validator
from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.guards import Guards
from reconciler.quota.planner.plan import PlanRemainder
from reconciler.quota.policy import Rules
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import RunOrigin
from reconciler.quota.rule_warnings import AcceptedWarning


class ValidationMode(StrEnum):
    """How to find out whether the broker would accept a plan."""

    AUTO = "auto"
    BROKER = "broker"
    SANDBOX = "sandbox"
    NONE = "none"


def _ignore_progress(phase: str, done: int, total: int) -> None:
    """Discard progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePorts:
    """The adapters that the composition root selected.

    Attributes:
        store: The cluster.
        inventory: The ownership records; opened for writing if the run may write.
        clock: Wall clock and monotonic clock.
        audit: The audit log; ``None`` = no audit log.
        validator: Kafka's rules without a broker; ``None`` = not available.
        locks_records: Whether loading the records locks them, as in a run that may write.
        progress: Called with the phases ``describe``, ``validate``, ``apply``, ``visible`` and counts.
    """

    store: QuotaStore
    inventory: Inventory
    clock: Clock
    audit: AuditLog | None = None
    validator: Validator | None = None
    locks_records: bool = True
    progress: Progress = _ignore_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOverride:
    """An override that this run begins.

    Attributes:
        entity: The entity.
        key: The quota key.
        value: The temporary value; ``None`` = not set.
        until: Seconds since the epoch.
        principal: The person who requests it.
        reason: The reason given.
        ends_with_document: Whether a change of the declared value ends it early.
    """

    entity: Entity
    key: Key
    value: float | None
    until: float
    principal: str
    reason: str
    ends_with_document: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileOptions:
    """The options of a run, all from the trusted configuration.

    Attributes:
        rules: Policy, drift mode, scope and other rules.
        guards: The bounds on one plan.
        expected_cluster_id: The id that the cluster must have; ``None`` = any.
        confirm_sync: Cluster id for which Sync is confirmed, as an alternative to ``rules.sync_confirmed``.
        validation: How to find out whether the broker would accept the plan.
        only: Which pairs may be written; ``None`` = all. Other pairs and their records stay unchanged.
        remainder: Findings and counts of the entities that documents, records and store leave out.
        overrides: Overrides that begin with this run.
        ended: Pairs whose override ends now.
        known_principals: Principals for the impact, in addition to those that the observation finds.
        assess: Whether to compute the impact on clients; it costs as much as the plan itself.
        advise: Whether to compute warnings about the documents' rules.
        own_principal: The principal of kquota, for the warning that a plan limits it.
        pace: Wait after each request until it is visible; above 50,000 changed keys this is always done.
        accepted_warnings: Warnings that the trusted project accepts.
        origin: Author and source of the run.
    """

    rules: Rules = field(default_factory=Rules)
    guards: Guards = field(default_factory=Guards)
    expected_cluster_id: str | None = None
    confirm_sync: str | None = None
    validation: ValidationMode = ValidationMode.AUTO
    only: Callable[[Entity, Key], bool] | None = None
    remainder: PlanRemainder = field(default_factory=PlanRemainder)
    overrides: tuple[NewOverride, ...] = ()
    ended: frozenset[Pair] = frozenset()
    known_principals: tuple[Principal, ...] = ()
    assess: bool = True
    advise: bool = True
    own_principal: Principal | None = None
    pace: bool = False
    accepted_warnings: tuple[AcceptedWarning, ...] = ()
    origin: RunOrigin = field(default_factory=RunOrigin)


LONGEST_SECONDS: Final = 86_400.0
"""Longest duration of a rollback: one day. After that, the documents apply again."""


def rollback_orders(
    before: Iterable[tuple[Entity, Key, float | None]],
    *,
    now: float,
    principal: str,
    reason: str,
    seconds: float = LONGEST_SECONDS,
) -> tuple[NewOverride, ...]:
    """Return overrides that restore earlier values; pass them to ``prepare`` as ``ReconcileOptions.overrides``.

    Args:
        before: Pairs of an outcome that may have changed the cluster, with their earlier values.
        now: Seconds since the epoch.
        principal: The person who requests it.
        reason: The reason given.
        seconds: Duration; at most one day is used.
    """
    return tuple(
        NewOverride(
            entity=subject,
            key=key,
            value=value,
            until=now + min(seconds, LONGEST_SECONDS),
            principal=principal,
            reason=reason,
            ends_with_document=True,
        )
        for subject, key, value in before
    )
