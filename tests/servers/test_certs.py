"""Tests of certificates: valid, or invalid in exactly the requested way."""

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.servers.certs import KEY_PASSWORD, Authority, Identity, wall_clock


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path)


def handshake(server: Identity, client: ssl.SSLContext, host: str = "localhost") -> None:
    """Do a TLS handshake in memory; raise the client's error."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.bundle)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = context.wrap_bio(to_server, to_client, server_side=True)
    client_side = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(4):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_a_server_is_trusted_under_its_names(authority: Authority) -> None:
    handshake(authority.server("node"), authority.client_context())
    handshake(authority.server("node"), authority.client_context(), "127.0.0.1")


def test_a_certificate_of_another_authority_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority.make(tmp_path / "stranger", name="stranger")
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        handshake(stranger.server("node"), authority.client_context())


def test_a_wrong_host_name_is_detected(authority: Authority) -> None:
    elsewhere = authority.server("elsewhere", hosts=("broker.example",))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(elsewhere, authority.client_context())


def test_an_expired_certificate_is_detected(authority: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake(authority.server("old", expired=True), authority.client_context())


def test_the_common_name_identifies_a_client(authority: Authority) -> None:
    alice = authority.client("alice")
    certificate = x509.load_pem_x509_certificate(alice.certificate.read_bytes())
    assert certificate.subject.rfc4514_string() == alice.subject == "CN=alice"
    assert certificate.not_valid_after_utc > wall_clock() + dt.timedelta(days=1)
    authority.client_context(alice)


def test_the_encrypted_key_requires_its_password(authority: Authority) -> None:
    raw = authority.client("alice").encrypted_key.read_bytes()
    assert raw.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    with pytest.raises(TypeError, match="Password was not given"):
        serialization.load_pem_private_key(raw, None)
    serialization.load_pem_private_key(raw, KEY_PASSWORD.encode())


def test_the_pkcs12_store_contains_the_same_identity(authority: Authority) -> None:
    alice = authority.client("alice")
    _key, certificate, issuers = pkcs12.load_key_and_certificates(
        alice.pkcs12().read_bytes(), KEY_PASSWORD.encode()
    )
    assert certificate == x509.load_pem_x509_certificate(alice.certificate.read_bytes())
    assert issuers == [authority.certificate]


@pytest.mark.integration
def test_keytool_creates_the_jks_store(authority: Authority) -> None:
    assert authority.client("alice").jks().read_bytes()[:4] == bytes.fromhex("feedfeed")
