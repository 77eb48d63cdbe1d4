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
    ("version", "supported"),
    [("3.4.1", False), ("3.5.0", True), ("3.9.1", True), ("3.10.0", True), ("4.0.1", True)],
)
def test_scram_is_supported_from_3_5_on(version: str, supported: bool) -> None:
    assert scram_supported(version) is supported
    assert ("SCRAM-SHA-512" in mechanisms(version)) is supported


def test_only_client_listeners_have_another_advertised_address() -> None:
    properties = settings(listeners=(Listener.PLAINTEXT,), advertised={Listener.PLAINTEXT: 7})
    assert properties["listeners"] == (
        "INTERNAL://127.0.0.1:2,PLAINTEXT://127.0.0.1:9000,CONTROLLER://127.0.0.1:1"
    )
    assert properties["advertised.listeners"] == "INTERNAL://127.0.0.1:2,PLAINTEXT://127.0.0.1:7"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:1,2@127.0.0.1:11"


def test_password_listeners_contain_the_users() -> None:
    properties = settings(listeners=(Listener.SASL_SSL,), users={"u": "p"})
    prefix = "listener.name.sasl_ssl"
    assert 'user_u="p";' in properties[f"{prefix}.plain.sasl.jaas.config"]
    assert "user_u" not in properties[f"{prefix}.scram-sha-256.sasl.jaas.config"]
    assert properties[f"{prefix}.sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"


def test_optional_features_are_disabled_by_default() -> None:
    properties = settings(listeners=(Listener.PLAINTEXT,))
    assert not [
        key for key in properties if key.startswith(("ssl.", "listener.name", "authorizer"))
    ]


def test_requested_features_are_enabled() -> None:
    properties = settings(
        listeners=(Listener.SSL, Listener.OAUTHBEARER),
        acls=True,
        tls=TlsFiles(keystore=Path("/k"), truststore=Path("/t")),
        tokens=TokenRules(jwks=Path("/keys.json"), issuer="i", audience="a"),
        extra={"num.io.threads": "7"},
    )
    assert properties["ssl.keystore.location"] == "/k"
    assert properties["listener.name.ssl.ssl.client.auth"] == "requested"
    assert properties["super.users"] == "User:admin;User:ANONYMOUS"
    prefix = "listener.name.oauthbearer.sasl.oauthbearer"
    assert properties[f"{prefix}.jwks.endpoint.url"] == "file:///keys.json"
    assert properties["num.io.threads"] == "7"


def test_an_independent_reader_parses_the_written_file() -> None:
    properties = {"plain": "a=b:c", "backslash": "C:\\dir", "lines": "one\ntwo"}
    assert javaproperties.loads(to_text(properties)) == properties
