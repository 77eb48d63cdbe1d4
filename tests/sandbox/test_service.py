"""The sandbox as the command line starts it."""

import asyncio
from pathlib import Path

import pytest

from reconciler.errors import ConfigError
from reconciler.sandbox import PROFILES, serve
from reconciler.sandbox.service import TlsFiles
from tests.contract.raw import RawConnection
from tests.servers.certs import Authority


def ask(bootstrap: str, user: str | None = None, password: str = "") -> set[int]:
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    with RawConnection(int(port), seconds=10, host=host.strip("[]")) as connection:
        if user is not None:
            assert connection.plain(user, password).error_code == 0
        return set(connection.offered())


async def serve_once(**options: object) -> str:
    """The bootstrap address that `serve` reported when it was ready; then `serve` is cancelled."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(serve(port=0, on_ready=ready.set_result, **options))
    done, _ = await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=10)
    if task in done:
        await task
    try:
        bootstrap = await ready
        if "tls" not in options:
            users = options.get("users") or {None: ""}
            for user, password in users.items():
                assert await asyncio.to_thread(ask, bootstrap, user, password)
        return bootstrap
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_the_sandbox_serves_plaintext_without_users() -> None:
    assert asyncio.run(serve_once(profile=PROFILES["3.9"])).startswith("127.0.0.1:")


def test_users_enable_sasl() -> None:
    asyncio.run(serve_once(users={"alice": "secret"}))


def test_several_brokers_are_listed_in_the_address() -> None:
    assert asyncio.run(serve_once(brokers=3)).count(",") == 2


def test_an_ipv6_address_is_in_brackets() -> None:
    assert asyncio.run(serve_once(host="::1")).startswith("[::1]:")


def test_tls_files_are_read(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    identity = authority.server("broker")
    files = TlsFiles(
        certificate=identity.certificate, key=identity.key, client_ca=authority.certificate_file
    )
    assert asyncio.run(serve_once(tls=files))


def test_invalid_tls_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TLS files"):
        TlsFiles(certificate=tmp_path / "none.pem").context()


def test_an_address_of_another_machine_is_reported() -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        asyncio.run(serve(host="192.0.2.1", port=0))
