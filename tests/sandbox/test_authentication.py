"""Sessions with a lifetime, certificates as principals, and the names in them."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.sandbox import (
    Authorizer,
    Listener,
    ListenerProtocol,
    Operation,
    Sandbox,
    SandboxSettings,
)
from reconciler.sandbox.connection import distinguished_name
from tests.contract.raw import Closed, RawConnection
from tests.contract.targets import running
from tests.servers.certs import Authority

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
LIFETIME = 10.0


class Hands:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def port(clock: Hands) -> Iterator[int]:
    settings = SandboxSettings(
        users=USERS,
        listeners=(Listener(protocol=ListenerProtocol.SASL_PLAINTEXT),),
        session_lifetime=LIFETIME,
        failed_authentication_delay=0.0,
    )
    with running(Sandbox(settings, clock=clock)) as sandbox:
        yield sandbox.port()


def test_a_session_reports_its_lifetime_and_ends_with_it(port: int, clock: Hands) -> None:
    with RawConnection(port) as connection:
        assert connection.plain("alice", "alice-secret").session_lifetime_ms == 10_000
        clock.seconds += LIFETIME - 0.1
        assert connection.describe().verdict == (0, "")
        clock.seconds += 0.1
        with pytest.raises(Closed):
            connection.describe()


def test_a_session_is_renewed_on_the_same_connection(port: int, clock: Hands) -> None:
    with RawConnection(port) as connection:
        for _ in range(3):
            assert connection.plain("alice", "alice-secret").error_code == 0
            clock.seconds += LIFETIME - 1
            assert connection.describe().verdict == (0, "")


def test_another_principal_cannot_renew_a_session(port: int) -> None:
    with RawConnection(port) as connection:
        assert connection.plain("alice", "alice-secret").error_code == 0
        refused = connection.plain("bob", "bob-secret")
        assert refused.error_code == 58
        assert "Cannot change principals" in str(refused.error_message)
        with pytest.raises(Closed):
            connection.describe()


def test_the_certificate_determines_the_principal(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server("broker").bundle)
    context.load_verify_locations(authority.certificate_file)
    context.verify_mode = ssl.CERT_OPTIONAL
    client = authority.client("reader")
    rights = frozenset({Operation.DESCRIBE_CONFIGS})
    settings = SandboxSettings(
        listeners=(Listener(name="SSL", protocol=ListenerProtocol.SSL, tls=context),),
        authorizer=Authorizer(grants={client.subject: rights}),
    )
    with running(Sandbox(settings)) as sandbox:
        codes = []
        for identity in (client, None):
            connection = RawConnection(sandbox.port())
            plain = connection.socket
            connection.socket = authority.client_context(identity).wrap_socket(
                plain, server_hostname="localhost"
            )
            with connection:
                codes.append(connection.describe().verdict[0])
    assert codes == [0, 31]


def test_a_tls_listener_continues_after_plain_text(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server("broker").bundle)
    door = Listener(name="SSL", protocol=ListenerProtocol.SSL, tls=context)
    with running(Sandbox(SandboxSettings(listeners=(door,)))) as sandbox:
        with socket.create_connection(("127.0.0.1", sandbox.port()), timeout=60) as plain:
            plain.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
            assert plain.recv(100)[:1] in (b"", b"\x15")
        connection = RawConnection(sandbox.port())
        connection.socket = authority.client_context().wrap_socket(
            connection.socket, server_hostname="localhost"
        )
        with connection:
            assert connection.offered()


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (((("commonName", "alice"),),), "CN=alice"),
        (
            (
                (("countryName", "DE"),),
                (("organizationName", "Acme, Inc."),),
                (("commonName", "a b"),),
            ),
            r"CN=a b,O=Acme\, Inc.,C=DE",
        ),
        (((("commonName", " lead"),),), r"CN=\ lead"),
        (((("commonName", "trail "),),), "CN=trail\\ "),
        (((("commonName", '#"x"'),),), r"CN=\#\"x\""),
        (((("commonName", "a"), ("userId", "b")),), "CN=a+UID=b"),
        (((("1.2.3", "x"),),), "1.2.3=x"),
    ],
)
def test_subjects_are_written_as_by_java(subject: tuple, text: str) -> None:
    assert distinguished_name(subject) == text
