"""Who may declare what: grants that bind namespaces to entities, bounds and permissions.

A message to a tenant never names another tenant's objects.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key, limit
from reconciler.quota.patterns import EntityPattern, form
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.value_ranges import ValueRange
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import set_values


class Permission(StrEnum):
    """What a tenant may do beyond declaring limits."""

    DELETE = "Delete"
    SUSPEND = "Suspend"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantGrant:
    """One grant.

    Attributes:
        namespaces: Whose documents it speaks of.
        entities: What they may declare. A pattern of user names covers those users alone and with client-ids;
            bare client-id, default and ip forms reach other tenants and each need a grant of their own.
        bounds: Ranges for their values.
        allow: Whether their deletionPolicy Delete and their suspend count.
        priority: Smaller wins where two documents claim one pair.
    """

    namespaces: frozenset[str]
    entities: tuple[EntityPattern, ...]
    bounds: tuple[ValueRange, ...] = ()
    allow: frozenset[Permission] = frozenset()
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantDecision:
    """What the grants make of one declaration.

    Attributes:
        granted: Whether it may claim its pairs.
        declaration: The declaration as it counts: without a Delete or suspend that is not allowed.
        messages: Sentences for its author: why it is refused, or what does not count.
        priority: Of the grant that covers it; 0 without tenants.
    """

    granted: bool
    declaration: Declaration
    messages: tuple[str, ...]
    priority: int = 0


def judge(declaration: Declaration, tenants: Iterable[TenantGrant]) -> GrantDecision:
    """What the grants say of a declaration; without any grant everything is granted.

    A document that is not granted freezes what is recorded as its own: a revoked grant removes nothing.
    """
    grants = tuple(tenants)
    if not grants:
        return GrantDecision(granted=True, declaration=declaration, messages=())
    tenant = _grant_of(declaration.document, declaration.entity, grants)
    if tenant is None:
        namespace = declaration.document.partition("/")[0]
        message = f"namespace {namespace} has no grant for entities of the form {form(declaration.entity)} like this one"
        return GrantDecision(granted=False, declaration=declaration, messages=(message,))
    ungranted = tuple(_outside(declaration, tenant))
    if ungranted:
        return GrantDecision(
            granted=False, declaration=declaration, messages=ungranted, priority=tenant.priority
        )
    permitted, messages = _permitted(declaration, tenant)
    return GrantDecision(
        granted=True, declaration=permitted, messages=messages, priority=tenant.priority
    )


def may_declare(document: str, subject: Entity | None, tenants: Iterable[TenantGrant]) -> bool:
    """Whether the namespace of a document has a grant for an entity, whatever the values; always without any tenant.

    Args:
        document: ``namespace/name``.
        subject: The entity; ``None`` = it cannot be read, so no grant covers it.
        tenants: All grants.
    """
    grants = tuple(tenants)
    return not grants or _grant_of(document, subject, grants) is not None


def may_remove(document: str, subject: Entity | None, tenants: Iterable[TenantGrant]) -> bool:
    """Whether the deletion of a document may remove its limits: the grant that covers it allows Delete. As above."""
    grants = tuple(tenants)
    if not grants:
        return True
    grant = _grant_of(document, subject, grants)
    return grant is not None and Permission.DELETE in grant.allow


def _grant_of(
    document: str, subject: Entity | None, grants: Iterable[TenantGrant]
) -> TenantGrant | None:
    """The grant that covers an entity for the namespace of a document, the smallest priority first."""
    namespace = document.partition("/")[0]
    covering = (
        tenant
        for tenant in grants
        if subject is not None
        and namespace in tenant.namespaces
        and any(pattern.matches(subject) for pattern in tenant.entities)
    )
    return min(covering, key=lambda tenant: tenant.priority, default=None)


def granted_ranges(tenants: Iterable[TenantGrant]) -> tuple[ValueRange, ...]:
    """The bounds of all tenants, so that the first range that covers a change is that of the grant of its document."""
    return tuple(
        replace(
            next(
                (bound for bound in tenant.bounds if bound.key is key),
                ValueRange(entities=pattern, key=key),
            ),
            entities=pattern,
            namespaces=tenant.namespaces,
        )
        for tenant in sorted(tenants, key=lambda tenant: tenant.priority)
        for pattern in tenant.entities
        for key in Key
    )


def _outside(declaration: Declaration, tenant: TenantGrant) -> Iterable[str]:
    for key, value in set_values(declaration.limits):
        for bound in tenant.bounds:
            if bound.key is not key or not bound.entities.matches(declaration.entity):
                continue
            if bound.minimum is not None and value < bound.minimum:
                yield f"{key} {limit(key, value)} is below the granted minimum {limit(key, bound.minimum)}"
            if bound.maximum is not None and value > bound.maximum:
                yield f"{key} {limit(key, value)} is above the granted maximum {limit(key, bound.maximum)}"


def _permitted(
    declaration: Declaration, tenant: TenantGrant
) -> tuple[Declaration, tuple[str, ...]]:
    messages: list[str] = []
    policy, suspended = declaration.deletion_policy, declaration.suspended
    if Permission.DELETE not in tenant.allow:
        if policy is DeletionPolicy.DELETE:
            messages.append("deletionPolicy Delete is not granted and acts as Retain")
        # Unset means Delete under Sync, which is not granted either.
        policy = DeletionPolicy.RETAIN
    if suspended and Permission.SUSPEND not in tenant.allow:
        suspended = False
        messages.append("suspend is not granted and is ignored")
    return replace(declaration, deletion_policy=policy, suspended=suspended), tuple(messages)
