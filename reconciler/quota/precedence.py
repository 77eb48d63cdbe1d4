"""Which limit a client gets, per key, from which of the eight levels (or ip), whose bucket it shares, and what lost.

Source: org.apache.kafka.server.quota.ClientQuotaManager.DefaultQuotaCallback (4.3; core/.../ClientQuotaManager.scala up to
4.1), compared with that class for all 256 subsets of the levels in the tests.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, Slot, level
from reconciler.quota.ip_aliases import canonical_address
from reconciler.quota.keys import COLUMN_OF, COLUMNS, RULES, Key
from reconciler.quota.state import Limits, QuotaState


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Principal:
    """A client as the broker sees it.

    Attributes:
        user: Name of the principal without its type; unauthenticated clients are ``ANONYMOUS``. ``None`` = not asked for.
        client_id: As the client sends it; "" and ``None`` are the same, and match no level with a client-id part.
        ip: Canonical address; ``None`` = not asked for.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverriddenLimit:
    """A limit that a closer one overrides."""

    entity: Entity
    level: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveLimit:
    """What one client gets for one key.

    Attributes:
        key: Which key.
        value: The limit; ``None`` = unlimited.
        source: The entity that it comes from; ``None`` = unlimited.
        level: Its level, 0 = unlimited.
        bucket: The metric tags of the bucket, which is what shares one limit: ``(user, client-id)``, each ""
            where all share it; for ip ``(ip,)``. Empty when unlimited.
        overridden: What would hold if the winner were not there, closest first.
        spellings: Other live spellings of the same address that have a limit of this key. Brokers apply the one that
            was written last, which no describe shows.
    """

    key: Key
    value: float | None
    source: Entity | None
    level: int
    bucket: tuple[str, ...]
    overridden: tuple[OverriddenLimit, ...]
    spellings: tuple[OverriddenLimit, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the value is certain: every live spelling of the address has the same limit."""
        return all(spelling.value == self.value for spelling in self.spellings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What one client gets: one :class:`EffectiveLimit` per key that was asked for, in column order."""

    principal: Principal
    effective: tuple[EffectiveLimit, ...]

    def limit(self, key: Key) -> float | None:
        """The limit for a key, ``None`` = unlimited or not asked for."""
        return next((effective.value for effective in self.effective if effective.key is key), None)


@lru_cache(maxsize=64)  # the same client is looked at before and after
def candidates(user: str | None, client_id: str | None) -> tuple[Entity, ...]:
    """The entities that can hold for a client, closest first: eight, fewer where a name is missing or empty.

    An empty client id matches no level that has a client-id part, not even the defaults: only levels 3 and 6.
    """
    return precedence_levels(
        (user, DEFAULT) if user else (), (client_id, DEFAULT) if client_id else ()
    )


def precedence_levels(users: tuple[Slot, ...], client_ids: tuple[Slot, ...]) -> tuple[Entity, ...]:
    """The entities of these user slots with these client-id slots, closest first, each slot also left out."""
    candidates: list[Entity] = []
    for name in users:
        candidates.extend(Entity((name, client, ABSENT)) for client in client_ids)
        candidates.append(Entity((name, ABSENT, ABSENT)))
    candidates.extend(Entity((ABSENT, client, ABSENT)) for client in client_ids)
    return tuple(candidates)


def ip_candidates(ip: str) -> tuple[Entity, ...]:
    """The two entities that can hold for an address, closest first."""
    return Entity((ABSENT, ABSENT, ip)), Entity((ABSENT, ABSENT, DEFAULT))


def resolve(
    state: QuotaState,
    principal: Principal,
    keys: Collection[Key] = COLUMNS,
    *,
    spellings: Mapping[str, tuple[Entity, ...]] | None = None,
) -> Resolution:
    """The effective limits of one client: at most ten look-ups, however large the state is.

    Keys of users and client ids are answered if a user or a client id is given, the connection rate if an ip is.

    Args:
        state: What is live.
        principal: Who.
        keys: Which keys are asked for.
        spellings: From ``twins.spellings_of``: then an address is looked up as brokers do, whichever way it is spelled.
            Without it, only the very text of ``principal.ip`` is looked up.
    """
    effective: list[EffectiveLimit] = []
    if principal.user is not None or principal.client_id is not None:
        around = _present(state.limits, candidates(principal.user, principal.client_id))
        effective.extend(_closest(key, around, principal) for key in _OF_CLIENTS if key in keys)
    if principal.ip is not None and Key.CONNECTION_CREATION_RATE in keys:
        effective.append(_of_address(state, principal, principal.ip, spellings or {}))
    return Resolution(principal=principal, effective=tuple(effective))


def _of_address(
    state: QuotaState, principal: Principal, ip: str, spellings: Mapping[str, tuple[Entity, ...]]
) -> EffectiveLimit:
    """The connection rate of an address: of the very text, else of the first spelling that has one, else the default."""
    key = Key.CONNECTION_CREATION_RATE
    named_candidates, default = ip_candidates(ip)
    matching = [
        spelling
        for spelling in spellings.get(canonical_address(ip) or "", ())
        if spelling != named_candidates and state.value(spelling, key) is not None
    ]
    if state.value(named_candidates, key) is None and matching:
        named_candidates = matching.pop(0)
    closest = _closest(key, _present(state.limits, (named_candidates, default)), principal)
    return replace(
        closest,
        spellings=tuple(
            OverriddenLimit(entity=candidate, level=level(candidate), value=value)
            for candidate in matching
            if (value := state.value(candidate, key)) is not None
        ),
    )


_OF_CLIENTS: Final = tuple(key for key in COLUMNS if not RULES[key].on_ip)
_UNLIMITED: Final = {
    key: EffectiveLimit(key=key, value=None, source=None, level=0, bucket=(), overridden=())
    for key in COLUMNS
}


def _present(
    limits: Mapping[Entity, Limits], candidates: tuple[Entity, ...]
) -> tuple[tuple[Entity, Limits], ...]:
    return tuple([(subject, limits[subject]) for subject in candidates if subject in limits])


def _closest(
    key: Key, around: tuple[tuple[Entity, Limits], ...], principal: Principal
) -> EffectiveLimit:
    column = COLUMN_OF[key]
    holding: list[tuple[Entity, float]] = []
    for subject, limits in around:
        value = limits[column]
        if value is not None:
            holding.append((subject, value))
    if not holding:
        return _UNLIMITED[key]
    source, value = holding[0]
    return EffectiveLimit(
        key=key,
        value=value,
        source=source,
        level=level(source),
        bucket=bucket(source, principal),
        overridden=tuple(
            [
                OverriddenLimit(entity=entity, level=level(entity), value=number)
                for entity, number in holding[1:]
            ]
        ),
    )


def bucket(source: Entity, principal: Principal) -> tuple[str, ...]:
    """The metric tags under which Kafka counts a client that ``source`` holds for.

    A default is a template: each user (or client id, or pair) that it matches has a bucket of its own.
    """
    if source[2] is not ABSENT:
        return (principal.ip or "",)
    user = "" if source[0] is ABSENT else principal.user or ""
    client_id = "" if source[1] is ABSENT else principal.client_id or ""
    return user, client_id


def sharing(source: Entity) -> str:
    """Who shares the bucket of a limit from this entity, in words."""
    return _SHARING[level(source)]


_SHARING: Mapping[int, str] = {
    1: "this user with this client-id",
    2: "this user with this client-id; each client-id has its own",
    3: "all client-ids of this user that no closer level names",
    4: "this user with this client-id; each user has its own",
    5: "this user with this client-id; each pair has its own",
    6: "all client-ids of this user; each user has its own",
    7: "this client-id across all users",
    8: "this client-id across all users; each client-id has its own",
    9: "all connections from this address",
    10: "all connections from this address; each address has its own",
}
