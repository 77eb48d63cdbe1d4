"""Tests of the GSSAPI stepper with a substitute for the extra, without a Kerberos server."""

import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from reconciler.client.auth import kerberos
from reconciler.errors import AuthenticationError, ConfigError


class GSSError(Exception):
    pass


@dataclass
class Wrapped:
    message: bytes


@dataclass
class Context:
    """Two tokens, then complete; wrapping marks the bytes."""

    name: str
    creds: str | None
    usage: str
    tokens: list[bytes | None] = field(default_factory=list)
    fail: bool = False

    @property
    def complete(self) -> bool:
        return len(self.tokens) >= 2

    def step(self, token: bytes | None) -> bytes | None:
        if self.fail:
            raise GSSError("No Kerberos credentials\navailable")
        self.tokens.append(token)
        return b"first" if len(self.tokens) == 1 else None

    def unwrap(self, token: bytes) -> Wrapped:
        if token == b"garbage":
            raise GSSError("bad token")
        return Wrapped(token.removeprefix(b"w:"))

    def wrap(self, message: bytes, encrypt: bool) -> Wrapped:
        assert not encrypt
        return Wrapped(b"w:" + message)


@pytest.fixture
def gssapi(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    module = types.ModuleType("gssapi")
    module.Name = lambda text, kind: f"{kind}:{text}"
    module.NameType = types.SimpleNamespace(
        hostbased_service="service", kerberos_principal="principal"
    )
    module.Credentials = lambda name, usage: f"{usage}:{name}"
    module.SecurityContext = Context
    module.exceptions = types.SimpleNamespace(GSSError=GSSError)
    monkeypatch.setitem(sys.modules, "gssapi", module)
    return module


def test_the_exchange_ends_by_selecting_no_security_layer(gssapi: types.ModuleType) -> None:
    stepper = kerberos.stepper("kafka", "", "broker.example")
    assert stepper.name == "GSSAPI"
    assert stepper._context.name == "service:kafka@broker.example"
    assert stepper._context.creds is None
    assert stepper.start() == b"first"
    assert stepper.receive(b"challenge") == b""
    assert stepper.receive(b"w:\x01\x00\xff\xff") == b"w:\x01\x00\x00\x00"
    assert stepper.receive(b"") is None


def test_the_principal_is_read_from_the_settings(gssapi: types.ModuleType) -> None:
    stepper = kerberos.stepper("kafka", "alice@REALM", "b")
    assert stepper._context.creds == "initiate:principal:alice@REALM"


@pytest.mark.parametrize("offer", [b"w:\x06\x00\xff\xff", b"w:\x01"])
def test_a_broker_that_requires_a_security_layer_is_refused(
    gssapi: types.ModuleType, offer: bytes
) -> None:
    stepper = kerberos.stepper("kafka", "", "b")
    stepper.start()
    stepper.receive(b"challenge")
    with pytest.raises(AuthenticationError, match="security layer"):
        stepper.receive(offer)


def test_failures_are_reported_on_one_line(gssapi: types.ModuleType) -> None:
    stepper = kerberos.stepper("kafka", "", "b")
    stepper._context.fail = True
    with pytest.raises(AuthenticationError, match="No Kerberos credentials available") as caught:
        stepper.start()
    assert "kinit" in caught.value.hint
    stepper = kerberos.stepper("kafka", "", "b")
    stepper.start()
    stepper.receive(b"challenge")
    with pytest.raises(AuthenticationError, match="bad token"):
        stepper.receive(b"garbage")


def test_without_the_extra_the_error_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match="needs the extra 'kerberos'"):
        kerberos.stepper("kafka", "", "b")


def test_without_a_ticket_no_context_is_created(gssapi: types.ModuleType) -> None:
    def no_ticket(**_: object) -> None:
        raise GSSError("no credentials")

    gssapi.SecurityContext = no_ticket
    with pytest.raises(AuthenticationError, match="no credentials"):
        kerberos.stepper("kafka", "", "b")
