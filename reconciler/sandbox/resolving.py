"""Asking the system about host names, as Kafka's controller does for ip entities. The only look-ups here."""

import asyncio
import socket
from collections.abc import Iterable

from reconciler.sandbox.hosts import LOCAL_NAMES
from reconciler.sandbox.settings import Resolver


async def resolvable(names: Iterable[str], resolver: Resolver | None) -> frozenset[str]:
    """Those of ``names`` that resolve; local names are known without asking."""
    found: set[str] = set()
    for name in sorted(names):
        if name.rstrip(".").lower() in LOCAL_NAMES or await (resolver or system_resolver)(name):
            found.add(name)
    return frozenset(found)


async def system_resolver(name: str) -> bool:
    """Whether the system finds an address for ``name``."""
    try:
        return bool(await asyncio.get_running_loop().getaddrinfo(name, None))
    except (socket.gaierror, UnicodeError):
        return False
