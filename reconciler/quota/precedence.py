"""The effective limit of a client per key: its level of the eight (or ip), its bucket, and the limits that it overrides.

Source: org.apache.kafka.server.quota.ClientQuotaManager.DefaultQuotaCallback (4.3; core/.../ClientQuotaManager.scala up to
4.1); the tests compare it with that class for all 256 subsets of the levels.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Final, cast

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import (
    ABSENT,
    DEFAULT,
    ENTITY_TYPES,
    Entity,
    EntityParts,
    Slot,
    canonical_address,
    level,
    parts,
)
from reconciler.quota.keys import CLIENT_KEYS, COLUMN_OF, COLUMNS, IP_KEYS, Key
from reconciler.quota.state import ForeignEntity, Limits, QuotaState, set_values

ANONYMOUS: Final = "ANONYMOUS"
"""The user of a client that does not authenticate (org.apache.kafka.common.security.auth.KafkaPrincipal)."""


class Principal(Struct, frozen=True, kw_only=True, order=True, gc=False):
    """A client as the broker identifies it. Every client has a user, so one with a client id alone is ``ANONYMOUS``.

    Attributes:
        user: Name of the principal without its type. ``None`` = only the address is known.
        client_id: As the client sends it; "" and ``None`` are the same, and match no level with a client-id part.
        ip: Its address; ``None`` = not requested.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __post_init__(self) -> None:
        if self.user is None and self.client_id is not None:
            force_setattr(self, "user", ANONYMOUS)


class OverriddenLimit(Struct, frozen=True, kw_only=True, gc=False):
    """A limit that a closer one overrides."""

    entity: Entity
    level: int
    value: float


class UnrankedLimit(Struct, frozen=True, kw_only=True, gc=False):
    """A live limit that may apply to a client: its entity type is not Kafka's, or its ip is no canonical address."""

    entity: EntityParts
    value: float


class EffectiveLimit(Struct, frozen=True, kw_only=True, gc=False):
    """The limit of one client for one key.

    Attributes:
        value: The limit; ``None`` = unlimited.
        source: The entity of the limit; ``None`` = unlimited.
        level: Its level, 0 = unlimited.
        bucket: The metric tags of the bucket whose clients share the limit: ``(user, client-id)``, each ""
            if all share it; for ip ``(ip,)``. Empty if unlimited.
        overridden: The limits that would apply without this one, closest first.
        unranked: Limits of this key that may win over ``source``, or lose to it: their entity types are not Kafka's, or
            brokers may resolve their ip to the address of the client.
    """

    key: Key
    value: float | None
    source: Entity | None
    level: int
    bucket: tuple[str, ...]
    overridden: tuple[OverriddenLimit, ...]
    unranked: tuple[UnrankedLimit, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the value is certain: each unranked limit has the same value."""
        return {limit.value for limit in self.unranked} <= {self.value}


class Resolution(Struct, frozen=True, kw_only=True, gc=False):
    """The limits of one client: one :class:`EffectiveLimit` per requested key that applies to it, in column order."""

    principal: Principal
    effective: tuple[EffectiveLimit, ...]

    def limit(self, key: Key) -> float | None:
        """Return the limit for a key, ``None`` = unlimited or not requested."""
        return next((effective.value for effective in self.effective if effective.key is key), None)


@lru_cache(maxsize=64)  # the same client is resolved before and after a plan
def candidates(user: str | None, client_id: str | None) -> tuple[Entity, ...]:
    """Return the entities that can apply to a client, closest first: eight, fewer if a name is missing or empty.

    An empty client-id matches no level that has a client-id part, not even the defaults: only levels 3 and 6.
    """
    return precedence_levels(
        (user, DEFAULT) if user else (), (client_id, DEFAULT) if client_id else ()
    )


def precedence_levels(users: tuple[Slot, ...], client_ids: tuple[Slot, ...]) -> tuple[Entity, ...]:
    """Return the entities of these user slots with these client-id slots, closest first, also with each slot absent."""
    levels = product((*users, ABSENT), (*client_ids, ABSENT), (ABSENT,))
    *candidates, _ = cast("Iterator[Entity]", levels)  # The last one has neither.
    return tuple(candidates)


def common_entities(first: Entity, second: Entity) -> tuple[Entity, ...]:
    """Return the entities that apply to every client of both, closest first; both must have a client in common.

    Every client has a user, if only ``ANONYMOUS``, but not every client has a client-id or matches a name.
    """
    pairs = zip(first, second, strict=True)
    user, client_id, ip = (next((s for s in slots if isinstance(s, str)), None) for slots in pairs)
    if first[2] is not ABSENT:
        return ip_candidates(ip) if ip is not None else ip_candidates("")[1:]
    clients = () if client_id is None else (client_id,)
    has_client_id = first[1] is not ABSENT or second[1] is not ABSENT
    return precedence_levels(
        (DEFAULT,) if user is None else (user, DEFAULT),
        (*clients, DEFAULT) if has_client_id else (),
    )


def closer_for_all(of_client_id: Entity) -> tuple[Entity, ...]:
    """Return the entities of all users that are closer than one of a client-id alone, for each of its clients: all have a user."""
    client_ids = dict.fromkeys((of_client_id[1], DEFAULT, ABSENT))
    return tuple(Entity((DEFAULT, client_id, ABSENT)) for client_id in client_ids)


def ip_candidates(ip: str) -> tuple[Entity, ...]:
    """Return the two entities that can apply to an address, closest first."""
    return Entity((ABSENT, ABSENT, ip)), Entity((ABSENT, ABSENT, DEFAULT))


def resolve(
    state: QuotaState,
    principal: Principal,
    keys: Collection[Key] = COLUMNS,
) -> Resolution:
    """Return the effective limits of one client with at most ten lookups, plus unranked entities.

    Resolves the keys of users and client-ids if a user is set, the keys of addresses if an ip is set.
    """
    effective: list[EffectiveLimit] = []
    if principal.user is not None:
        present = _present(state.limits, candidates(principal.user, principal.client_id))
        effective.extend(_closest(key, present, principal) for key in CLIENT_KEYS if key in keys)
    if principal.ip is not None:
        address = canonical_address(principal.ip) or principal.ip
        present = _present(state.limits, ip_candidates(address))
        effective.extend(_closest(key, present, principal) for key in IP_KEYS if key in keys)
    matching = [
        (entity_parts, dict(values))
        for entity_parts, values in unranked_entities(state)
        if may_match_client(entity_parts, principal)
    ]
    return Resolution(
        principal=principal,
        effective=tuple(
            _with_unranked(limit, matching) if matching else limit for limit in effective
        ),
    )


def principals_with_quotas(state: QuotaState) -> frozenset[Principal]:
    """Return the principals that have a quota of their own: users, users with client-id, ips."""
    principals: set[Principal] = set()
    for user, client_id, ip in state.limits:
        if isinstance(ip, str):
            principals.add(Principal(ip=ip))
        elif isinstance(user, str):
            principals.add(
                Principal(user=user, client_id=client_id if isinstance(client_id, str) else None)
            )
    return frozenset(principals)


def resolve_all(
    state: QuotaState, principals: Iterable[Principal], keys: Collection[Key] = COLUMNS
) -> dict[Principal, Resolution | QuotaValueError]:
    """Return the effective limits of many clients, an error for each that is not a client."""
    return {
        principal: _client_error(principal) or resolve(state, principal, keys)
        for principal in principals
    }


def _client_error(principal: Principal) -> QuotaValueError | None:
    if principal == Principal():
        return QuotaValueError("a client to resolve needs a user, a client-id or an ip")
    if principal.ip is not None and canonical_address(principal.ip) is None:
        return QuotaValueError(f"{principal.ip!a} is not an ip address")
    return None


def unranked_entities(state: QuotaState) -> Iterator[ForeignEntity]:
    """Return live entities that only brokers can rank: of types other than Kafka's (KIP-546), or with an uncertain address."""
    yield from (
        (entity_parts, values)
        for entity_parts, values in state.foreign_entities
        if any(kind not in ENTITY_TYPES for kind, _ in entity_parts)
    )
    for subject in state.uncertain_addresses:
        yield parts(subject), tuple(set_values(state.limits[subject]))


def unranked_parts(key: Key, states: Iterable[QuotaState]) -> frozenset[EntityParts]:
    """Return the unranked entities that limit a key in any of these states."""
    return frozenset(
        entity_parts
        for state in states
        for entity_parts, values in unranked_entities(state)
        if any(name == key for name, _ in values)
    )


def may_match_client(entity_parts: EntityParts, principal: Principal) -> bool:
    """Whether an entity of any types can apply to a client; an unknown type may match every client.

    A prefix is matched as Redpanda documents ``client-id-prefix``. A host name may match every address.
    """
    names = {"user": principal.user, "client-id": principal.client_id, "ip": principal.ip}
    for kind, name in entity_parts:
        if kind == CLIENT_ID_PREFIX:
            if not principal.client_id or not principal.client_id.startswith(name or ""):
                return False
        elif kind in names and not _matches(kind, name, names[kind]):
            return False
    return True


def _matches(kind: str, name: str | None, text: str | None) -> bool:
    """Whether a part of an entity, ``None`` for the default, can apply to this name or address of a client."""
    if not text or name in {None, text}:
        return bool(text)
    address = canonical_address(text) if kind == "ip" else None
    return address is not None and canonical_address(name or "") in {None, address}


CLIENT_ID_PREFIX: Final = "client-id-prefix"
"""Redpanda's entity type for all clients whose client-id begins with the name."""

_ANY: Final = "*"


def may_share_client(entity_parts: EntityParts, subject: Entity) -> bool:
    """Whether some client can match both; a slot without a name is filled with a name that matches."""
    named = dict(entity_parts)
    user, client_id, ip = subject
    prefix = named.get(CLIENT_ID_PREFIX) or ""
    return may_match_client(
        entity_parts,
        Principal(
            user=user if isinstance(user, str) else named.get("user") or _ANY,
            client_id=client_id
            if isinstance(client_id, str)
            else named.get("client-id") or f"{prefix}*",
            ip=ip if isinstance(ip, str) else named.get("ip") or _ANY,
        ),
    )


def _with_unranked(
    effective: EffectiveLimit, matching: Iterable[tuple[EntityParts, Mapping[str, float]]]
) -> EffectiveLimit:
    limits = tuple(
        UnrankedLimit(entity=entity_parts, value=values[effective.key])
        for entity_parts, values in matching
        if effective.key in values
    )
    return replace(effective, unranked=limits) if limits else effective


_UNLIMITED: Final = {
    key: EffectiveLimit(key=key, value=None, source=None, level=0, bucket=(), overridden=())
    for key in COLUMNS
}


def _present(
    limits: Mapping[Entity, Limits], candidates: tuple[Entity, ...]
) -> tuple[tuple[Entity, Limits], ...]:
    return tuple([(subject, limits[subject]) for subject in candidates if subject in limits])


def _closest(
    key: Key, present: tuple[tuple[Entity, Limits], ...], principal: Principal
) -> EffectiveLimit:
    column = COLUMN_OF[key]
    matching: list[tuple[Entity, float]] = []
    for subject, limits in present:
        value = limits[column]
        if value is not None:
            matching.append((subject, value))
    if not matching:
        return _UNLIMITED[key]
    source, value = matching[0]
    return EffectiveLimit(
        key=key,
        value=value,
        source=source,
        level=level(source),
        bucket=bucket(source, principal),
        overridden=tuple(
            [
                OverriddenLimit(entity=entity, level=level(entity), value=number)
                for entity, number in matching[1:]
            ]
        ),
    )


def bucket(source: Entity, principal: Principal) -> tuple[str, ...]:
    """Return the metric tags under which Kafka counts a client that ``source`` applies to.

    A default is a template: each user (or client-id, or pair) that it matches has its own bucket.
    """
    if source[2] is not ABSENT:
        return (principal.ip or "",)
    user = "" if source[0] is ABSENT else principal.user or ""
    client_id = "" if source[1] is ABSENT else principal.client_id or ""
    return user, client_id
