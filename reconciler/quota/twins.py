"""Two spellings of one address: Kafka stores ip names verbatim, brokers apply them to the address.

``::1`` and ``0:0:0:0:0:0:0:1`` are two entities for the controller and one limit for a broker, the last writer winning
(ClientQuotaMetadataManager.handleIpQuota, 4.3). So nothing is set on an address while a twin is live.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.quota.entity import Entity
from reconciler.quota.state import State, set_values


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A desired ip entity and the live one that means the same address.

    Attributes:
        entity: What is to be set.
        live: The other spelling.
        keys: The keys that are set on it, by Kafka's names.
    """

    entity: Entity
    live: Entity
    keys: tuple[str, ...]

    @property
    def removal(self) -> str:
        """The command that removes the twin."""
        return (
            f"kafka-client-quotas --bootstrap-server HOST:PORT --alter --names=ip={self.live[2]}"
            f" --delete={','.join(self.keys)}"
        )


def canonical_address(text: str) -> str | None:
    """The address in its canonical text, IPv4-mapped addresses as IPv4; ``None`` if it is no literal."""
    try:
        address = ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def find_twins(wanted: Iterable[Entity], live: State) -> tuple[Twin, ...]:
    """Live ip entities that spell an address of ``wanted`` in another way; sorted.

    Args:
        wanted: Named ip entities that are about to be set.
        live: What the cluster has.
    """
    named = {canonical_address(str(one[2])): one for one in wanted}
    if not named:
        return ()
    found: list[Twin] = []
    for subject, limits in live.limits.items():
        address = subject[2]
        if not isinstance(address, str):
            continue
        mine = named.get(canonical_address(address))
        if mine is not None and mine != subject:
            keys = tuple(str(key) for key, _ in set_values(limits))
            found.append(Twin(entity=mine, live=subject, keys=keys))
    return tuple(sorted(found, key=lambda twin: (str(twin.entity[2]), str(twin.live[2]))))
