"""Buckets: the metric tags under which Kafka counts a client, the limit of a tag, and the levels that decide the tags.

Two different functions: the tags under which a client is counted depend on the levels that have any quota of the key
(:func:`tags_of`); the limit of these tags depends only on the levels that such tags can match (:func:`limit_of`). Source:
ClientQuotaManager.DefaultQuotaCallback, quotaMetricTags and quotaLimit (4.3), compared with that class in the tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, level
from reconciler.quota.keys import Key
from reconciler.quota.precedence import ip_candidates, precedence_levels
from reconciler.quota.state import QuotaState


class GroupKind(StrEnum):
    """The names that a bucket has."""

    USER = "user"
    CLIENT = "client"
    PAIR = "pair"
    IP = "ip"
    NONE = "none"  # an empty client id that no limit matches: no tags at all


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Bucket:
    """One series of one broker: a group of clients that is counted together, not one client."""

    # Which of the other three are set. A missing label means empty, never `<default>`.
    kind: GroupKind
    user: str = ""  # decoded name, or ""
    client_id: str = ""  # unquoted, or ""
    ip: str = ""  # canonical address, or ""

    @property
    def entity(self) -> Entity:
        """The entity that matches every client of the bucket: a name that is not known is absent."""
        return Entity((self.user or ABSENT, self.client_id or ABSENT, self.ip or ABSENT))

    @property
    def columns(self) -> dict[str, str]:
        """The bucket as columns of a table."""
        return {
            "group_kind": str(self.kind),
            "user": self.user,
            "client_id": self.client_id,
            "ip": self.ip,
        }


def bucket_of_row(row: Mapping[str, Any]) -> Bucket:
    """Return the bucket of a row with the columns of :attr:`Bucket.columns`.

    Raises:
        ValueError: The kind is unknown.
    """
    return Bucket(
        kind=GroupKind(row["group_kind"]),
        user=row["user"],
        client_id=row["client_id"],
        ip=row["ip"],
    )


def bucket_of(user: str = "", client_id: str = "", ip: str = "") -> Bucket:
    """Return the bucket of these labels; an ip excludes the others, as in Kafka."""
    if ip:
        return Bucket(kind=GroupKind.IP, ip=ip)
    return Bucket(kind=_KINDS[bool(user), bool(client_id)], user=user, client_id=client_id)


_KINDS: Final[dict[tuple[bool, bool], GroupKind]] = {
    (True, True): GroupKind.PAIR,
    (True, False): GroupKind.USER,
    (False, True): GroupKind.CLIENT,
    (False, False): GroupKind.NONE,
}

_KIND_OF_LEVEL: Final[dict[int, GroupKind]] = {
    1: GroupKind.PAIR,
    2: GroupKind.PAIR,
    3: GroupKind.USER,
    4: GroupKind.PAIR,
    5: GroupKind.PAIR,
    6: GroupKind.USER,
    7: GroupKind.CLIENT,
    8: GroupKind.CLIENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """The limits of one key, and the kinds of level that Kafka has in use for it."""

    limits: Mapping[Entity, float]
    # Kinds of level that decide the tags, as of a broker of 4.2 or newer: an older one keeps a kind until it
    # restarts, even after its last quota is removed (KAFKA-19282).
    in_use: frozenset[GroupKind]

    @property
    def measured(self) -> bool:
        """Whether the broker records use: without any quota of a key it records no rates for it."""
        return bool(self.in_use or self.limits)  # levels of addresses do not decide tags


def book(state: QuotaState, key: Key) -> KeyLimits:
    """Return the limits of one key in a state."""
    limits = {subject: value for subject, of, value in state.pairs() if of is key}
    kinds = {_KIND_OF_LEVEL[level(entity)] for entity in limits if entity[2] is ABSENT}
    return KeyLimits(limits=limits, in_use=frozenset(kinds))


def tags_of(rules: KeyLimits, user: str, client_id: str) -> Bucket:
    """Return the bucket in which a client is counted, limited or not.

    With one kind in use every client is counted by that kind, matched or not. With several, the closest entity with a
    quota decides, and without a match the client id. An empty client id is looked up like any other, though no level with a
    client id can limit it.

    Args:
        rules: The limits of the key.
        user: Name of the principal, never empty.
        client_id: As the client sent it; may be empty.
    """
    if len(rules.in_use) < 2:
        (kind,) = rules.in_use or (GroupKind.CLIENT,)
        return bucket_of(
            "" if kind is GroupKind.CLIENT else user, "" if kind is GroupKind.USER else client_id
        )
    for subject in precedence_levels((user, DEFAULT), (client_id, DEFAULT)):
        if subject in rules.limits:
            return bucket_of(
                "" if subject[0] is ABSENT else user, "" if subject[1] is ABSENT else client_id
            )
    return bucket_of("", client_id)


def entities_of(bucket: Bucket) -> tuple[Entity, ...]:
    """Return the entities that can limit these tags, closest first: two for a user or a client id, four for a pair."""
    match bucket.kind:
        case GroupKind.IP:
            return ip_candidates(bucket.ip)
        case GroupKind.USER:
            return precedence_levels((bucket.user, DEFAULT), ())
        case GroupKind.CLIENT:
            return precedence_levels((), (bucket.client_id, DEFAULT))
        case GroupKind.PAIR:
            both = precedence_levels((bucket.user, DEFAULT), (bucket.client_id, DEFAULT))
            return tuple(entity for entity in both if ABSENT not in entity[:2])
        case GroupKind.NONE:
            return ()


def limit_of(rules: KeyLimits, bucket: Bucket) -> tuple[Entity, float] | None:
    """Return the limit of these tags and its entity, ``None`` = unlimited.

    This is not the limit of a client with these names: the bucket of a user alone is never limited by a pair.
    """
    for subject in entities_of(bucket):
        if subject in rules.limits:
            return subject, rules.limits[subject]
    return None
