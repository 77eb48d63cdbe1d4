"""Tenant grants: which namespaces may declare which entities, within which bounds and with which permissions.

A message to a tenant never contains the names of another tenant's objects.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key, limit
from reconciler.quota.patterns import EntityPattern, form
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.value_ranges import ValueRange
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import set_values


class Permission(StrEnum):
    """A permission of a tenant besides declaring limits."""

    DELETE = "Delete"
    SUSPEND = "Suspend"


class TenantGrant(Struct, frozen=True, kw_only=True, gc=False):
    """The grant of one tenant."""

    namespaces: frozenset[str]  # namespaces of the documents that it applies to
    # Entities that the documents may declare. A pattern of user names covers those users alone and with client-ids;
    # bare client-id, default and ip forms affect other tenants, so each needs its own grant.
    entities: tuple[EntityPattern, ...]
    bounds: tuple[ValueRange, ...] = ()  # allowed ranges of the values
    # Whether deletionPolicy Delete and suspend take effect.
    allow: frozenset[Permission] = frozenset()
    priority: int = 0  # the document with the smaller number wins if two documents claim one pair


class GrantDecision(Struct, frozen=True, kw_only=True, gc=False):
    """The result of checking one declaration against the grants."""

    granted: bool  # whether the declaration may claim its pairs
    # The effective declaration: without a Delete or suspend that is not allowed.
    declaration: Declaration
    # Sentences for its author: why it is refused, or which fields have no effect.
    messages: tuple[str, ...]
    priority: int = 0  # priority of the grant that covers it; 0 without tenants


def judge(declaration: Declaration, tenants: Iterable[TenantGrant]) -> GrantDecision:
    """Check a declaration against the grants; without any grant every declaration is granted.

    A document that is not granted freezes its recorded pairs: revoking a grant removes nothing.
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
    permitted, messages = _permit(declaration, tenant)
    return GrantDecision(
        granted=True, declaration=permitted, messages=messages, priority=tenant.priority
    )


def may_remove(document: str, subject: Entity | None, tenants: Iterable[TenantGrant]) -> bool:
    """Whether the grant that covers a document allows Delete, so that its deletion may remove its limits; true without tenants."""
    grants = tuple(tenants)
    if not grants:
        return True
    grant = _grant_of(document, subject, grants)
    return grant is not None and Permission.DELETE in grant.allow


def _grant_of(
    document: str, subject: Entity | None, grants: Iterable[TenantGrant]
) -> TenantGrant | None:
    """Return the grant with the smallest priority number that covers the entity for the document's namespace."""
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
    """Return the bounds of all tenants by priority; the first range that covers a change belongs to its document's grant."""
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


def _permit(declaration: Declaration, tenant: TenantGrant) -> tuple[Declaration, tuple[str, ...]]:
    messages: list[str] = []
    policy, suspended = declaration.deletion_policy, declaration.suspended
    if Permission.DELETE not in tenant.allow:
        if policy is DeletionPolicy.DELETE:
            messages.append("deletionPolicy Delete is not granted and acts as Retain")
        # An unset policy means Delete under Sync, which is not granted either.
        policy = DeletionPolicy.RETAIN
    if suspended and Permission.SUSPEND not in tenant.allow:
        suspended = False
        messages.append("suspend is not granted and is ignored")
    permitted = replace(
        declaration,
        deletion_policy=policy,
        suspended=suspended,
        tenant=", ".join(sorted(tenant.namespaces)),
    )
    return permitted, tuple(messages)
