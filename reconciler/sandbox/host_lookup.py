"""Resolves host names with the system, as Kafka's controller does for ip entities."""

import asyncio
import socket
from collections.abc import Iterable

from reconciler.sandbox.broker_rules.ip_literals import (
    LOCAL_NAMES,
    is_scoped_by_name,
)
from reconciler.sandbox.settings import Resolver


async def resolvable(names: Iterable[str], resolver: Resolver | None) -> frozenset[str]:
    """Return those of ``names`` that resolve; local names need no lookup."""
    resolved_names: set[str] = set()
    for name in sorted(names):
        if is_scoped_by_name(name):
            has_known_zone = name.strip("[]").partition("%")[2] in interfaces()
        else:
            has_known_zone = name.rstrip(".").lower() in LOCAL_NAMES or await (
                resolver or system_resolver
            )(name)
        if has_known_zone:
            resolved_names.add(name)
    return frozenset(resolved_names)


def interfaces() -> frozenset[str]:
    """Return the names of the network interfaces of this machine."""
    try:
        return frozenset(name for _, name in socket.if_nameindex())
    except OSError:
        return frozenset()


async def system_resolver(name: str) -> bool:
    """Whether the system finds an address for ``name``."""
    try:
        return bool(await asyncio.get_running_loop().getaddrinfo(name, None))
    except (socket.gaierror, UnicodeError):
        return False
