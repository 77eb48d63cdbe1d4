"""Two spellings of one address: Kafka stores ip names verbatim, brokers apply them to the address.

``::1`` and ``0:0:0:0:0:0:0:1`` are two entities for the controller and one limit for a broker, the last writer winning
(ClientQuotaMetadataManager.handleIpQuota, 4.3). So nothing is set on an address while a twin is live.
"""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.state import State, set_values

ADDRESS: Final = "HOST:PORT"
"""What stands for a broker in the text of a command; who knows one puts it there."""

_IPV4: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10}){0,3}")


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
            f"kafka-client-quotas --bootstrap-server {ADDRESS} --alter --names=ip={self.live[2]}"
            f" --delete={','.join(self.keys)}"
        )


def canonical_address(text: str) -> str | None:
    """The address in its canonical text, IPv4-mapped addresses as IPv4; ``None`` if it is no literal.

    Brackets and short IPv4 forms (``10.1`` is 10.0.0.1) are read as Java reads them (java.net.InetAddress.getByName):
    the last number fills all bytes that are left.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ipaddress.ip_address(_whole_ipv4(bare))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _whole_ipv4(text: str) -> str | int:
    """One to four decimal numbers as the address they are for Java, zeros before them or not; anything else as it is."""
    if not _IPV4.fullmatch(text):
        return text
    *leading, last = (int(number) for number in text.split("."))
    left = 4 - len(leading)
    if max(leading, default=0) > 255 or last >= 256**left:
        return text
    return last + sum(number << 8 * (3 - at) for at, number in enumerate(leading))


def is_named_ip(subject: Entity) -> bool:
    """Whether the entity is one address."""
    return isinstance(subject[2], str)


def find_twins(wanted: Iterable[Entity], live: State) -> tuple[Twin, ...]:
    """Live ip entities that spell an address of ``wanted`` in another way; sorted.

    Args:
        wanted: Named ip entities that are about to be set.
        live: What the cluster has.
    """
    named: dict[str, list[Entity]] = {}
    for one in wanted:
        address = canonical_address(str(one[2]))
        if address is not None:
            named.setdefault(address, []).append(one)
    if not named:
        return ()
    found: list[Twin] = []
    for subject, limits in live.limits.items():
        slot = subject[2]
        if not isinstance(slot, str):
            continue
        keys = tuple(str(key) for key, _ in set_values(limits))
        found.extend(
            Twin(entity=mine, live=subject, keys=keys)
            for mine in named.get(canonical_address(slot) or "", ())
            if mine != subject
        )
    return tuple(sorted(found, key=lambda twin: (str(twin.entity[2]), str(twin.live[2]))))
