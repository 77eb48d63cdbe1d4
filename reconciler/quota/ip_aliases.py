"""IP aliases: two spellings of one address. Kafka stores ip names verbatim, but brokers apply them to the address.

``::1`` and ``0:0:0:0:0:0:0:1`` are two entities for the controller and one limit for a broker; the last write wins
(ClientQuotaMetadataManager.handleIpQuota, 4.3). So no limit is set on an address while an alias of it is live.
"""

import ipaddress
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.state import QuotaState, set_values

ADDRESS: Final = "HOST:PORT"
"""Placeholder of the broker address in commands; callers that have the address replace it."""

_IPV4: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10}){0,3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IpAlias:
    """An ip entity that is declared or about to be set, and a live ip entity with the same address."""

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

    entity: Entity
    live: Entity  # the live entity with the other spelling
    keys: tuple[str, ...]  # Kafka names of the keys that are set on `live`

    @property
    def removal(self) -> str:
        """The command that removes the live alias."""
        return _removal(self.live, self.keys)


def _removal(entity: Entity, keys: tuple[str, ...]) -> str:
    return (
        f"kafka-client-quotas --bootstrap-server {ADDRESS} --alter --names=ip={shlex.quote(str(entity[2]))}"
        f" --delete={','.join(keys)}"
    )


def canonical_address(text: str) -> str | None:
    """Return the canonical text of an address, IPv4-mapped addresses as IPv4; ``None`` if it is not a literal.

    Brackets and short IPv4 forms (``10.1`` is 10.0.0.1) are parsed as in Java (java.net.InetAddress.getByName):
    the last number fills all remaining bytes. A scope (``fe80::1%eth0``) is ignored, as in Inet6Address.equals.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.ip_address(_joined_ipv4(bare))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.IPv6Address(int(address)))


def _joined_ipv4(text: str) -> str | int:
    """Convert one to four decimal numbers to the IPv4 address that Java parses (leading zeros allowed); else return the text."""
    if not _IPV4.fullmatch(text):
        return text
    *leading, last = (int(number) for number in text.split("."))
    remaining_bytes = 4 - len(leading)
    if max(leading, default=0) > 255 or last >= 256**remaining_bytes:
        return text
    return last + sum(number << 8 * (3 - at) for at, number in enumerate(leading))


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
