"""Sessions with a lifetime, certificates as principals, and the names in them."""

from collections.abc import Iterator

import pytest

from reconciler.sandbox import (
    Listener,
    ListenerProtocol,
    Sandbox,
    SandboxSettings,
)
from reconciler.sandbox.connection import distinguished_name
from tests.contract.raw import Closed, RawConnection
from tests.contract.targets import running

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
