"""Tests of name resolution, addresses, connection races and proxies."""

import asyncio
import socket
import sys
import types
from typing import Any

import pytest

from reconciler.client.client_config import ClientConfig
from reconciler.client.network.dialer import DialTarget, dial
from reconciler.errors import ConfigError, ConnectError, DnsError
from tests.client.support import client, on_loop
from tests.fakes.scripted_broker import ScriptedBroker


def config(*addresses: str, **settings: object) -> ClientConfig:
    properties = {"bootstrap.servers": ",".join(addresses)}
    return ClientConfig.from_mapping(
        properties | {key.replace("_", "."): value for key, value in settings.items()}
    )


async def dialed(client_config: ClientConfig) -> DialTarget:
    opened, target = await dial(client_config.bootstrap, client_config, lambda *_: None)
    opened.close()
    return target


@on_loop
async def test_an_unreachable_address_does_not_hide_a_reachable_one() -> None:
    async with ScriptedBroker() as broker:
        for _ in range(5):
            target = await dialed(config("127.0.0.1:1", broker.address, "127.0.0.1:2"))
            assert str(target.address) == broker.address


@on_loop
async def test_an_unknown_host_name_is_a_final_error() -> None:
    with pytest.raises(DnsError, match=r"no host name resolves: nosuch\.invalid"):
        await dialed(config("nosuch.invalid:9092"))
    async with client(ScriptedBroker(), bootstrap_servers="nosuch.invalid:9092") as our:
        with pytest.raises(DnsError) as caught:
            await our.describe()
        assert caught.value.attempt == 1


@on_loop
async def test_an_unknown_host_name_does_not_hide_a_known_one() -> None:
    async with ScriptedBroker() as broker:
        await dialed(config("nosuch.invalid:9092", broker.address))


@on_loop
async def test_an_invalid_host_name_is_reported() -> None:
    with pytest.raises(ConnectError, match=r"no host name resolves"):
        await dialed(config("a" * 70 + ".example:1"))


@on_loop
async def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedBroker() as broker:

        async def two(*_: object, **__: object) -> list[Any]:
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kind, ("127.0.0.1", 1)), (*kind, ("127.0.0.1", broker.port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
        for _ in range(5):
            target = await dialed(config("both.example:9092"))
            assert target.sockaddr == ("127.0.0.1", broker.port)
            assert str(target) == "both.example:9092 (127.0.0.1)"
            assert target.server_name == "both.example"


@on_loop
async def test_canonical_names_replace_the_configured_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    async def name(*_: object) -> tuple[str, str]:
        return "real.example", "9092"

    monkeypatch.setattr(asyncio.get_running_loop(), "getnameinfo", name)
    lookup = "resolve_canonical_bootstrap_servers_only"
    async with ScriptedBroker() as broker:
        target = await dialed(config(broker.address, client_dns_lookup=lookup))
    assert target.server_name == "real.example"


@on_loop
async def test_a_cancelled_dial_leaves_no_socket_open() -> None:
    dialing = asyncio.create_task(dialed(config("192.0.2.1:9092")))
    await asyncio.sleep(0)
    dialing.cancel()
    with pytest.raises((asyncio.CancelledError, ConnectError)):
        await dialing


class Proxy:
    """The proxy object of the extra."""

    dialed: list[tuple[str, int]]
    port: int

    @classmethod
    def from_url(cls, url: str) -> "Proxy":
        if "://" not in url:
            raise ValueError(url)
        return cls()

    async def connect(self, dest_host: str, dest_port: int) -> socket.socket:
        if dest_host == "dead.example":
            raise RuntimeError("pl4nted")
        self.dialed.append((dest_host, dest_port))
        opened = socket.create_connection(("127.0.0.1", self.port))
        opened.setblocking(False)
        return opened


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> type[Proxy]:
    Proxy.dialed = []
    module = types.ModuleType("python_socks.async_.asyncio")
    module.Proxy = Proxy
    for name in ("python_socks", "python_socks.async_"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "python_socks.async_.asyncio", module)
    return Proxy


@on_loop
async def test_a_proxy_resolves_the_name_itself(proxy: type[Proxy]) -> None:
    async with ScriptedBroker() as broker:
        proxy.port = broker.port
        settings = {
            "proxy_url": "socks5://u:pl4nted@p:1080",
            "bootstrap_servers": "inside.example:9092",
        }
        broker._all = lambda: [types.SimpleNamespace(node_id=1, port=broker.port)]
        async with client(broker, **settings) as our:
            await our.describe()
    assert proxy.dialed == [("inside.example", 9092)]


@on_loop
async def test_failures_of_a_proxy_do_not_show_its_password(proxy: type[Proxy]) -> None:
    with pytest.raises(
        ConnectError, match=r"through the proxy: dead\.example:1: RuntimeError"
    ) as caught:
        await dialed(config("dead.example:1", proxy_url="socks5://u:pl4nted@p:1080"))
    assert "pl4nted" not in str(caught.value)
    with pytest.raises(ConfigError, match="is not a proxy URL"):
        await dialed(config("a:1", proxy_url="pl4nted"))


@on_loop
async def test_without_the_extra_a_proxy_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "python_socks.async_.asyncio", None)
    with pytest.raises(ConfigError, match="needs the extra 'proxy'"):
        await dialed(config("a:1", proxy_url="socks5://p:1080"))
