"""IP aliases: two spellings of one address. Kafka stores ip names verbatim, but brokers apply them to the address.

``::1`` and ``0:0:0:0:0:0:0:1`` are two entities for the controller and one limit for a broker; the last write wins
(ClientQuotaMetadataManager.handleIpQuota, 4.3). So no limit is set on an address while an alias of it is live.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import Entity, canonical_address
from reconciler.quota.keys import IP_KEYS, Key
from reconciler.quota.state import QuotaState, set_values

ADDRESS: Final = "HOST:PORT"
"""Placeholder of the broker address in commands; callers that have the address replace it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IpAlias:
    """An ip entity that is declared or about to be set, and a live ip entity with the same address."""

    entity: Entity
    live: Entity  # the live entity with the other spelling
    keys: tuple[str, ...]  # Kafka names of the keys that are set on `live`

    @property
    def message(self) -> str:
        """The problem and the command that solves it."""
        return (
            f"ip={self.entity[2]} is live as ip={self.live[2]}, which is the same address:"
            f" remove that first with `{self.removal}`"
        )

    @property
    def shadow_message(self) -> str:
        """The problem if no write is planned. Removing either spelling drops the broker's limit of the address."""
        return (
            f"ip={self.entity[2]} is declared and ip={self.live[2]} is live, which is the same address: brokers apply"
            f" the one written last. Remove both, `{self.removal}` and `{_removal(self.entity, self.keys)}`, then restore"
            " the declared limit (--correct-drift or driftDetection: Correct); removing only one of them leaves"
            " the address without its own limit"
        )

    @property
    def pairs(self) -> tuple[tuple[Entity, Key], ...]:
        """The quota keys of both spellings."""
        return tuple((entity, key) for entity in (self.entity, self.live) for key in IP_KEYS)

    @property
    def removal(self) -> str:
        """The command that removes the live alias."""
        return _removal(self.live, self.keys)


def _removal(entity: Entity, keys: tuple[str, ...]) -> str:
    return (
        f"kafka-client-quotas --bootstrap-server {ADDRESS} --alter --names=ip={shlex.quote(str(entity[2]))}"
        f" --delete={','.join(keys)}"
    )


def is_named_ip(subject: Entity) -> bool:
    """Whether the entity is a named ip."""
    return isinstance(subject[2], str)


def find_ip_aliases(desired_entities: Iterable[Entity], live: QuotaState) -> tuple[IpAlias, ...]:
    """Return live ip entities that are other spellings of an address of ``desired_entities``; sorted.

    Args:
        desired_entities: Named ip entities that are declared or about to be set.
    """
    declared = tuple(desired_entities)
    if not declared:
        return ()
    spellings = spellings_of(live)
    aliases = [
        IpAlias(
            entity=entity,
            live=spelling,
            keys=tuple(str(key) for key, _ in set_values(live.limits[spelling])),
        )
        for entity in declared
        for spelling in spellings.get(canonical_address(str(entity[2])) or "", ())
        if spelling != entity
    ]
    return tuple(sorted(aliases, key=lambda alias: (str(alias.entity[2]), str(alias.live[2]))))


def spellings_of(live: QuotaState) -> Mapping[str, tuple[Entity, ...]]:
    """Group the live ip entities by address, sorted by text. Host names are omitted: only brokers resolve them."""
    entities: dict[str, list[Entity]] = {}
    for entity in live.limits:
        if is_named_ip(entity):
            address = canonical_address(str(entity[2]))
            if address is not None:
                entities.setdefault(address, []).append(entity)
    return {
        address: tuple(sorted(spellings, key=lambda entity: str(entity[2])))
        for address, spellings in entities.items()
    }
