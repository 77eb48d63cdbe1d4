"""What a run is given: the outside world as ports, and its options; those of a rollback are made from an outcome."""

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
from reconciler.quota.policy import Rules
from reconciler.quota.precedence import Principal
from reconciler.quota.results.report import RunOrigin
from reconciler.quota.rule_warnings import AcceptedWarning


class ValidationMode(StrEnum):
    """Who is asked whether the broker would accept a plan."""

    AUTO = "auto"
    BROKER = "broker"
    SANDBOX = "sandbox"
    NONE = "none"


def _quiet(phase: str, done: int, total: int) -> None:
    """Progress that is not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePorts:
    """The outside world, as the composition root picked it.

    Attributes:
        store: The cluster.
        inventory: The records; opened for writing where the run may write.
        clock: Time.
        audit: The audit log; ``None`` = none is kept.
        validator: Kafka's rules without a broker; ``None`` = not at hand.
        locks_records: Whether loading the records locks them, as a run that may write does.
        progress: Called with the phases ``describe``, ``validate``, ``apply``, ``visible`` with counts of entities.
    """

    store: QuotaStore
    inventory: Inventory
    clock: Clock
    audit: AuditLog | None = None
    validator: Validator | None = None
    locks_records: bool = True
    progress: Progress = _quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOverride:
    """An override that this run begins.

    Attributes:
        entity: Whose quota.
        key: Which key.
        value: What holds meanwhile; ``None`` = not set.
        until: Seconds since the epoch.
        principal: Who asks.
        reason: Why.
        ends_with_document: Whether a change of what is declared ends it early.
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
    """The options of this run, all of them from the trusted side.

    Attributes:
        rules: Policy, drift mode, scope and the rest.
        guards: What one plan may do.
        expected_cluster_id: The id that must answer; ``None`` = any.
        confirm_sync: Cluster id for which Sync is confirmed; counts besides ``rules.sync_confirmed``.
        validation: Who is asked whether the broker would accept the plan.
        only: Which pairs may be written; ``None`` = all. Others stay as they are, also in the records.
        overrides: Overrides that begin with this run.
        ended: Pairs whose override ends now.
        known_principals: Principals whose limits the impact speaks of, besides those that the cluster itself names.
        assess: Whether to compute what the plan means for clients; it costs as much as the plan itself.
        advise: Whether to look for doubtful rules among the documents.
        own_principal: Who we are to the cluster, for the warning that we limit ourselves.
        pace: Wait after each request until it is visible; above 50,000 changed keys that is done anyway.
        accepted_warnings: Warnings that the trusted project accepts.
        origin: Who runs this, from what.
    """

    rules: Rules = field(default_factory=Rules)
    guards: Guards = field(default_factory=Guards)
    expected_cluster_id: str | None = None
    confirm_sync: str | None = None
    validation: ValidationMode = ValidationMode.AUTO
    only: Callable[[Entity, Key], bool] | None = None
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
"""A rollback holds for at most a day: after that the documents speak again."""


def rollback_orders(
    before: Iterable[tuple[Entity, Key, float | None]],
    *,
    now: float,
    principal: str,
    reason: str,
    seconds: float = LONGEST_SECONDS,
) -> tuple[NewOverride, ...]:
    """Overrides that bring values back; give them to ``prepare`` as ``Orders.overrides``.

    Args:
        before: Pairs of an outcome that may have changed the cluster, with the values from before.
        now: Seconds since the epoch.
        principal: Who asks.
        reason: Why.
        seconds: How long at most; longer than a day is a day.
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
