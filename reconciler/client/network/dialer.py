"""Resolves names and connects a socket: all addresses are tried, staggered (RFC 8305), with or without a proxy.

Only this module and ``transport`` translate errors of the operating system.
"""

import asyncio
import errno
import importlib
import os
import random
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from reconciler.base.installation import install_hint
from reconciler.client.client_config import Address, ClientConfig
from reconciler.errors import ConfigError, ConnectError, ConnectionRefused, DnsError

STAGGER_SECONDS: Final = 0.25
"""Connection attempt delay of RFC 8305."""

_FAMILIES: Final = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
_NO_SUCH_NAME: Final = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
)


NoteCause = Callable[[Address, str], None]
"""Receives at once why an address failed: the dial may be cancelled while another address does not answer."""


class DialTarget(Struct, frozen=True, kw_only=True):
    """One address to dial."""

    address: Address  # the configured or advertised address, which identifies the node in messages
    server_name: str  # the host name for TLS certificates and SNI
    family: int
    sockaddr: tuple[Any, ...]  # for the operating system; empty if a proxy resolves the name

    def __str__(self) -> str:
        if not self.sockaddr or self.sockaddr[0] == self.address.host:
            return str(self.address)
        return f"{self.address} ({self.sockaddr[0]})"


async def dial(
    addresses: Sequence[Address], config: ClientConfig, note_cause: NoteCause
) -> tuple[socket.socket, DialTarget]:
    """Return the first socket that connects to any of the addresses, in random order, resolved again.

    Raises:
        DnsError: None of the names exists.
        ConnectError: No address accepted the connection; the message has each address with its reason.
    """
    if config.proxy is not None:
        return await _through_proxy(addresses, config, note_cause)
    targets: list[DialTarget] = []
    failures: list[str] = []
    unknown = True
    for address in addresses:
        try:
            targets += await _resolve(address, config)
            continue
        except socket.gaierror as error:
            failures.append(f"{address.host}: {error.strerror}")
            unknown = unknown and error.errno in _NO_SUCH_NAME
        except UnicodeError:
            failures.append(f"{address.host}: not a host name")
        note_cause(address, failures[-1])
    if not targets:
        kind = DnsError if unknown else ConnectError
        raise kind(
            f"no host name resolves: {'; '.join(failures)}",
            hint="check bootstrap.servers and the name server",
        )
    return await _race(targets, failures, note_cause)


async def _resolve(address: Address, config: ClientConfig) -> list[DialTarget]:
    """Resolve one name to its addresses, in random order."""
    loop = asyncio.get_running_loop()
    resolved = await loop.getaddrinfo(
        address.host, address.port, family=_FAMILIES[config.address_family], type=socket.SOCK_STREAM
    )
    targets = []
    for family, _, _, _, sockaddr in dict.fromkeys(resolved):
        name = address.host
        if config.canonical_names:
            name, _ = await loop.getnameinfo((str(sockaddr[0]), address.port))
        targets.append(
            DialTarget(address=address, server_name=name, family=family, sockaddr=sockaddr)
        )
    random.shuffle(targets)
    return targets


async def _race(
    targets: Sequence[DialTarget], failures: list[str], note_cause: NoteCause
) -> tuple[socket.socket, DialTarget]:
    """Return the first connected socket; a new attempt begins every 250 ms or as soon as one fails."""
    waiting, refused_count = list(targets), 0
    tasks: dict[asyncio.Task[socket.socket], DialTarget] = {}
    try:
        while waiting or tasks:
            if waiting:
                target = waiting.pop(0)
                tasks[asyncio.create_task(_open(target))] = target
            finished, _ = await asyncio.wait(
                tasks,
                timeout=STAGGER_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in finished:
                target = tasks.pop(task)
                try:
                    return task.result(), target
                except OSError as error:
                    failures.append(f"{target}: {_reason(error)}")
                    note_cause(target.address, failures[-1])
                    refused_count += error.errno == errno.ECONNREFUSED
    finally:
        await _abandon(tasks)
    # A name that does not resolve is among the failures, too.
    kind = ConnectionRefused if refused_count == len(failures) else ConnectError
    raise kind(
        f"no connection: {'; '.join(failures)}",
        node=str(targets[0].address),
        hint="check bootstrap.servers, the network and whether the broker is up",
    )


async def _abandon(tasks: dict[asyncio.Task[socket.socket], DialTarget]) -> None:
    """Cancel the other attempts and close their sockets."""
    for task in tasks:
        _ = task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, socket.socket):
            result.close()


async def _open(target: DialTarget) -> socket.socket:
    opened = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)  # noqa: FBT003 - the standard library's signature
        await asyncio.get_running_loop().sock_connect(opened, target.sockaddr)
    except BaseException:
        opened.close()
        raise
    return opened


async def _through_proxy(
    addresses: Sequence[Address], config: ClientConfig, note_cause: NoteCause
) -> tuple[socket.socket, DialTarget]:
    """Connect through the proxy, which resolves the names, so there is no race."""
    try:
        proxies: Any = importlib.import_module("python_socks.async_.asyncio")
    except ImportError:
        raise ConfigError(
            "proxy.url: needs the extra 'proxy'", key="proxy.url", hint=install_hint("proxy")
        ) from None
    url = config.proxy.reveal() if config.proxy is not None else ""
    try:
        proxy = proxies.Proxy.from_url(url)
    except ValueError:
        raise ConfigError(
            "proxy.url: is not a proxy URL",
            key="proxy.url",
            hint="socks5://host:port or http://host:port",
        ) from None
    failures = []
    for address in random.sample(list(addresses), len(addresses)):
        try:
            opened: socket.socket = await proxy.connect(
                dest_host=address.host, dest_port=address.port
            )
        except Exception as error:  # noqa: BLE001 - the library has its own exceptions; their text may contain the URL
            failures.append(f"{address}: {type(error).__name__}")
            note_cause(address, failures[-1])
            continue
        return opened, DialTarget(
            address=address, server_name=address.host, family=opened.family, sockaddr=()
        )
    raise ConnectError(
        f"no connection through the proxy: {'; '.join(failures)}", node=str(addresses[0])
    )


def _reason(error: OSError) -> str:
    # asyncio replaces strerror by its own text; errno still has the system's error.
    return os.strerror(error.errno) if error.errno else type(error).__name__
