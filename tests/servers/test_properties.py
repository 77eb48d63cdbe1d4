"""Tests of the server properties of each option."""

from pathlib import Path

import javaproperties
import pytest

from tests.servers.properties import (
    Listener,
    NodePorts,
    NodeSettings,
    TlsFiles,
    TokenRules,
    mechanisms,
    scram_supported,
    server_properties,
    to_text,
)


def settings(version: str = "4.3.1", *, listeners: tuple[Listener, ...] = (), **more) -> dict:
    clients = {listener: 9000 + place for place, listener in enumerate(listeners)}
    ports = NodePorts(
        controller=1, internal=2, clients=clients, advertised=more.pop("advertised", {})
    )
    return server_properties(
        NodeSettings(
            version=version, node=1, ports=ports, voters={1: 1, 2: 11}, data=Path("/d"), **more
        )
    )


@pytest.mark.parametrize(
    ("version", "known"),
    [("3.4.1", False), ("3.5.0", True), ("3.9.1", True), ("3.10.0", True), ("4.0.1", True)],
)
def test_scram_is_known_from_3_5_on(version: str, known: bool) -> None:
    assert scram_supported(version) is known
    assert ("SCRAM-SHA-512" in mechanisms(version)) is known


def test_only_client_listeners_are_advertised_elsewhere() -> None:
    found = settings(listeners=(Listener.PLAINTEXT,), advertised={Listener.PLAINTEXT: 7})
    assert found["listeners"] == (
        "INTERNAL://127.0.0.1:2,PLAINTEXT://127.0.0.1:9000,CONTROLLER://127.0.0.1:1"
    )
    assert found["advertised.listeners"] == "INTERNAL://127.0.0.1:2,PLAINTEXT://127.0.0.1:7"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:1,2@127.0.0.1:11"


def test_password_listeners_know_the_users() -> None:
    found = settings(listeners=(Listener.SASL_SSL,), users={"u": "p"})
    prefix = "listener.name.sasl_ssl"
    assert 'user_u="p";' in found[f"{prefix}.plain.sasl.jaas.config"]
    assert "user_u" not in found[f"{prefix}.scram-sha-256.sasl.jaas.config"]
    assert found[f"{prefix}.sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"


def test_nothing_is_switched_on_that_was_not_asked_for() -> None:
    found = settings(listeners=(Listener.PLAINTEXT,))
    assert not [key for key in found if key.startswith(("ssl.", "listener.name", "authorizer"))]


def test_what_was_asked_for_is_switched_on() -> None:
    found = settings(
        listeners=(Listener.SSL, Listener.OAUTHBEARER),
        acls=True,
        tls=TlsFiles(keystore=Path("/k"), truststore=Path("/t")),
        tokens=TokenRules(jwks=Path("/keys.json"), issuer="i", audience="a"),
        extra={"num.io.threads": "7"},
    )
    assert found["ssl.keystore.location"] == "/k"
    assert found["listener.name.ssl.ssl.client.auth"] == "requested"
    assert found["super.users"] == "User:admin;User:ANONYMOUS"
    prefix = "listener.name.oauthbearer.sasl.oauthbearer"
    assert found[f"{prefix}.jwks.endpoint.url"] == "file:///keys.json"
    assert found["num.io.threads"] == "7"


def test_an_independent_reader_reads_what_is_written() -> None:
    wanted = {"plain": "a=b:c", "backslash": "C:\\dir", "lines": "one\ntwo"}
    assert javaproperties.loads(to_text(wanted)) == wanted
