"""Settings that contradict each other are refused."""

import ssl
from pathlib import Path

import pytest

from reconciler.errors import ConfigError
from reconciler.sandbox import Listener, ListenerProtocol, SandboxSettings
from reconciler.sandbox.settings import tls_context
from tests.servers.certs import Authority

SASL = Listener(name="SASL", protocol=ListenerProtocol.SASL_PLAINTEXT)


def test_tls_requires_a_protocol_with_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ConfigError, match="needs a TLS context"):
        Listener(protocol=ListenerProtocol.SASL_SSL)
    with pytest.raises(ConfigError, match="no use for a TLS context"):
        Listener(tls=context)
    assert Listener(protocol=ListenerProtocol.SSL, tls=context).tls is context


def test_tls_files_are_read(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    identity = authority.server("broker")
    context = tls_context(identity.certificate, identity.key, authority.certificate_file)
    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert tls_context(identity.certificate, identity.key, None).verify_mode is ssl.CERT_NONE
    with pytest.raises(ConfigError, match="TLS files"):
        tls_context(tmp_path / "none.pem", None, None)


def test_a_mechanism_that_the_sandbox_does_not_support_is_refused() -> None:
    with pytest.raises(ConfigError, match="GSSAPI"):
        Listener(mechanisms=("PLAIN", "GSSAPI"))


def test_a_sasl_listener_requires_users() -> None:
    with pytest.raises(ConfigError, match="admits no client"):
        SandboxSettings(listeners=(SASL,))
    assert SandboxSettings(listeners=(SASL,), users={"a": "b"}).users == {"a": "b"}


@pytest.mark.parametrize("nodes", [(), (1, 1)])
def test_brokers_have_different_ids(nodes: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="different ids"):
        SandboxSettings(nodes=nodes)


def test_listeners_have_different_names() -> None:
    with pytest.raises(ConfigError, match="different names"):
        SandboxSettings(listeners=(Listener(), Listener()))
    with pytest.raises(ConfigError, match="different names"):
        SandboxSettings(listeners=())


def test_a_cluster_id_has_22_characters() -> None:
    with pytest.raises(ConfigError, match="22 characters"):
        SandboxSettings(cluster_id="short")


def test_passwords_are_not_shown() -> None:
    assert "hunter2" not in repr(SandboxSettings(users={"a": "hunter2"}))
