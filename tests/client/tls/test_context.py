"""TLS from settings, tested with handshakes with a loopback server."""

import ssl
import sys
from pathlib import Path

import pytest

from reconciler.client import ClientConfig
from reconciler.client.network.transport import tls_error
from reconciler.client.tls import context as tls
from reconciler.client.tls.context import Tls
from reconciler.errors import ConfigError, ConnectError, TlsError
from tests.client.support import Recorder, client, on_loop
from tests.fakes.scripted_broker import ScriptedBroker
from tests.servers.certs import KEY_PASSWORD, Authority, Identity

STORES = Path(__file__).parent / "keystores"
TRUST = "ssl.truststore.location"
KEYS = "ssl.keystore.location"
OPENS_TRUST = "ssl.truststore.password"
OPENS_KEYS = "ssl.keystore.password"
TRUSTED = "ssl.truststore.certificates"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.client("alice")


def server(
    authority: Authority, name: str = "server", *, mutual: bool = False, **how: object
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.server(name, **how).bundle)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate_file)
    return context


def trusting(authority: Authority) -> dict[str, object]:
    return {"security_protocol": "SSL", "ssl_truststore_location": authority.certificate_file}


def text(path: Path) -> str:
    return path.read_text()


@pytest.mark.parametrize(
    "trust",
    [
        lambda ca: {"ssl_truststore_location": ca, "ssl_truststore_type": "PEM"},
        lambda ca: {"ssl_truststore_location": ca},
        lambda ca: {"ssl_truststore_certificates": text(ca)},
        lambda ca: {"ssl_truststore_certificates": text(ca).replace("\n", " ")},
        lambda ca: {"ssl_ca_location": ca},
        lambda ca: {"ssl_ca_pem": text(ca)},
    ],
)
@on_loop
async def test_every_way_to_configure_trust_works(authority: Authority, trust) -> None:
    recorder = Recorder()
    settings = {"security_protocol": "SSL", **trust(authority.certificate_file)}
    async with (
        ScriptedBroker(tls=server(authority)) as broker,
        client(broker, recorder=recorder, **settings) as our,
    ):
        await our.describe()
    (connected,) = recorder.of("connected")
    assert connected.tls == "TLSv1.3"


@on_loop
async def test_a_folder_of_authorities_is_loaded(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text(text(authority.certificate_file))
    settings = {"security_protocol": "SSL", "ssl_ca_location": tmp_path}
    async with ScriptedBroker(tls=server(authority)) as broker, client(broker, **settings) as our:
        await our.describe()


@pytest.mark.parametrize(
    "show",
    [
        lambda identity: {"ssl_keystore_location": identity.bundle, "ssl_keystore_type": "PEM"},
        lambda identity: {
            "ssl_keystore_certificate_chain": text(identity.certificate),
            "ssl_keystore_key": text(identity.key),
        },
        lambda identity: {
            "ssl_keystore_certificate_chain": text(identity.certificate),
            "ssl_keystore_key": text(identity.encrypted_key),
            "ssl_key_password": KEY_PASSWORD,
        },
        lambda identity: {
            "ssl_certificate_location": identity.certificate,
            "ssl_key_location": identity.key,
        },
        lambda identity: {
            "ssl_certificate_location": identity.certificate,
            "ssl_key_location": identity.encrypted_key,
            "ssl_key_password": KEY_PASSWORD,
        },
        lambda identity: {
            "ssl_certificate_pem": text(identity.certificate),
            "ssl_key_pem": text(identity.key),
        },
        lambda identity: {
            "ssl_keystore_location": identity.pkcs12(),
            "ssl_keystore_password": KEY_PASSWORD,
        },
        lambda identity: {
            "ssl_keystore_location": identity.pkcs12(),
            "ssl_keystore_password": KEY_PASSWORD,
            "ssl_keystore_type": "JKS",
        },
    ],
)
@on_loop
async def test_every_way_to_configure_a_client_certificate_works(
    authority: Authority, identity: Identity, show
) -> None:
    context = server(authority, mutual=True)
    settings = {**trusting(authority), **show(identity)}
    async with ScriptedBroker(tls=context) as broker, client(broker, **settings) as our:
        await our.describe()


@on_loop
async def test_a_server_that_closes_without_a_client_certificate_is_explained(
    authority: Authority,
) -> None:
    context = server(authority, mutual=True)
    async with ScriptedBroker(tls=context) as broker, client(broker, **trusting(authority)) as our:
        with pytest.raises(ConnectError) as caught:
            await our.describe()
        assert "may require a client certificate (ssl.keystore.*)" in caught.value.hint
        assert caught.value.attempt == 3


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "refused the client certificate, or requires one"),
        ("SSLV3_ALERT_BAD_CERTIFICATE", "refused the client certificate, or requires one"),
        ("TLSV1_ALERT_UNKNOWN_CA", "refused the client certificate, or requires one"),
        ("WRONG_VERSION_NUMBER", "does not use TLS"),
        ("NO_PROTOCOLS_AVAILABLE", "TLS with b:1 failed"),
    ],
)
def test_alerts_are_explained(reason: str, words: str) -> None:
    error = ssl.SSLError(1, "words of OpenSSL")
    error.reason = reason
    explanation = tls_error(error, "b:1")
    assert words in explanation.message
    assert explanation.hint
    assert not explanation.retriable


@pytest.mark.parametrize(
    ("how", "words", "hint"),
    [
        ({"hosts": ("elsewhere.example",)}, "is for another host name", "endpoint.identification"),
        ({"expired": True}, "has expired", "renew it"),
    ],
)
@on_loop
async def test_a_wrong_certificate_is_final_and_explained(
    authority: Authority, how, words, hint
) -> None:
    context = server(authority, "wrong", **how)
    async with ScriptedBroker(tls=context) as broker, client(broker, **trusting(authority)) as our:
        with pytest.raises(TlsError, match=words) as caught:
            await our.describe()
        assert hint in caught.value.hint
        assert caught.value.node == broker.address


@on_loop
async def test_a_wrong_authority_is_final_and_explained(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority.make(tmp_path)
    async with (
        ScriptedBroker(tls=server(authority)) as broker,
        client(broker, **trusting(stranger)) as our,
    ):
        with pytest.raises(TlsError, match="not signed by a trusted authority") as caught:
            await our.describe()
        assert "ssl.truststore" in caught.value.hint


@on_loop
async def test_an_empty_algorithm_disables_the_host_name_check_and_nothing_else(
    authority: Authority, tmp_path: Path
) -> None:
    context = server(authority, "elsewhere", hosts=("elsewhere.example",))
    off = {"ssl_endpoint_identification_algorithm": ""}
    async with ScriptedBroker(tls=context) as broker:
        async with client(broker, **trusting(authority), **off) as our:
            await our.describe()
        async with client(broker, **trusting(Authority.make(tmp_path)), **off) as our:
            with pytest.raises(TlsError, match="not signed by"):
                await our.describe()


@on_loop
async def test_verification_can_be_disabled_only_by_its_explicit_setting(
    authority: Authority,
) -> None:
    settings = {"security_protocol": "SSL", "enable_ssl_certificate_verification": False}
    async with ScriptedBroker(tls=server(authority)) as broker, client(broker, **settings) as our:
        await our.describe()


@on_loop
async def test_tls_to_a_listener_without_it_is_explained(authority: Authority) -> None:
    async with ScriptedBroker() as broker, client(broker, **trusting(authority)) as our:
        with pytest.raises(ConnectError) as caught:
            await our.describe()
        assert "does not seem to use TLS" in caught.value.hint


@on_loop
async def test_tls_versions_are_the_configured_ones(authority: Authority) -> None:
    recorder = Recorder()
    settings = {
        **trusting(authority),
        "ssl_enabled_protocols": "TLSv1.2",
        "ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    }
    async with (
        ScriptedBroker(tls=server(authority)) as broker,
        client(broker, recorder=recorder, **settings) as our,
    ):
        await our.describe()
    assert recorder.of("connected")[0].tls == "TLSv1.2"


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_names_of_ciphers_are_translated_for_openssl(java: str, openssl: str) -> None:
    cipher_list = tls._ciphers((java, "TLS_AES_256_GCM_SHA384"))
    assert cipher_list == openssl
    names = {cipher["name"] for cipher in Tls(ciphers=cipher_list).context().get_ciphers()}
    assert openssl in names


def refused(**settings: object) -> ConfigError:
    properties = {"bootstrap.servers": "b:1", "security.protocol": "SSL"}
    properties |= {key.replace("_", "."): value for key, value in settings.items()}
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_mapping(properties)
    return caught.value


@pytest.mark.parametrize(
    ("key", "words", "settings"),
    [
        (TRUST, "/no/such: cannot be read: No such file", {TRUST: "/no/such"}),
        (TRUST, "neither PEM, JKS nor PKCS#12", {TRUST: STORES / "README.md"}),
        (TRUST, "neither PEM, JKS nor PKCS#12", {TRUST: STORES / "key.jceks"}),
        (
            TRUST,
            "is JKS, but its type is given as PEM",
            {TRUST: STORES / "trust.jks", "ssl.truststore.type": "PEM"},
        ),
        (TRUST, "password is wrong", {TRUST: STORES / "trust.jks", OPENS_TRUST: "pl4nted"}),
        (TRUST, "password is wrong", {TRUST: STORES / "trust.p12", OPENS_TRUST: "pl4nted"}),
        (TRUST, "contains no trusted certificate", {TRUST: STORES / "key.jks"}),
        (TRUSTED, "contains no PEM certificate", {TRUSTED: "pl4nted"}),
        (
            TRUSTED,
            "cannot be read",
            {TRUSTED: "-----BEGIN CERTIFICATE-----\npl4nted\n-----END CERTIFICATE-----"},
        ),
        ("ssl.ca.location", "cannot be combined with", {TRUSTED: "x", "ssl.ca.location": "/x"}),
        (KEYS, "needs a password", {KEYS: STORES / "key.jks"}),
        (KEYS, "key password is wrong", {KEYS: STORES / "key.jks", OPENS_KEYS: "storepass"}),
        (KEYS, "holds 0 private keys", {KEYS: STORES / "trust.jks", OPENS_KEYS: "storepass"}),
        (KEYS, "no private key", {KEYS: STORES / "trust.p12", OPENS_KEYS: "storepass"}),
        (KEYS, "holds 0 private keys", {KEYS: STORES / "ca.pem"}),
        ("ssl.keystore.key", "cannot be combined with", {KEYS: "/x", "ssl.keystore.key": "x"}),
        (
            "ssl.keystore.certificate.chain",
            "missing beside ssl.keystore.key",
            {"ssl.keystore.key": "x"},
        ),
        (
            "ssl.keystore.key",
            "missing beside ssl.certificate.location",
            {"ssl.certificate.location": STORES / "ca.pem"},
        ),
        (
            "ssl.key.location",
            "cannot be combined with ssl.keystore.key",
            {"ssl.key.pem": "x", "ssl.key.location": "/x"},
        ),
        (
            "ssl.enabled.protocols",
            "must include TLSv1.2 or TLSv1.3",
            {"ssl.enabled.protocols": "SSLv3,TLSv1"},
        ),
        ("ssl.cipher.suites", "none of these ciphers", {"ssl.cipher.suites": "NONSENSE-CIPHER"}),
    ],
)
def test_invalid_key_material_is_named(key: str, words: str, settings: dict[str, object]) -> None:
    error = refused(**settings)
    assert error.key == key
    assert words in str(error)
    assert "pl4nted" not in str(error) + error.hint


def test_an_encrypted_key_without_a_password_is_named_and_prompts_for_none(
    identity: Identity,
) -> None:
    error = refused(
        ssl_certificate_location=identity.certificate, ssl_key_location=identity.encrypted_key
    )
    assert error.key == "ssl.key.password"
    error = refused(
        ssl_certificate_location=identity.certificate,
        ssl_key_location=identity.encrypted_key,
        ssl_key_password="pl4nted",  # noqa: S106 - a planted one
    )
    assert error.key == "ssl.keystore.key"
    assert "pl4nted" not in str(error)


def test_a_key_of_another_certificate_is_refused(authority: Authority, identity: Identity) -> None:
    other_identity = authority.client("bob")
    error = refused(
        ssl_certificate_location=identity.certificate, ssl_key_location=other_identity.key
    )
    assert "not that of the certificate" in str(error)


@pytest.mark.parametrize(
    "settings",
    [
        {
            "ssl.keystore.location": STORES / "key.jks",
            "ssl.keystore.password": "storepass",
            "ssl.key.password": "keypass1",
        },
        {
            "ssl.keystore.location": STORES / "same.jks",
            "ssl.keystore.password": "storepass",
            "ssl.keystore.type": "JKS",
        },
        {
            "ssl.keystore.location": STORES / "key.p12",
            "ssl.keystore.password": "storepass",
            "ssl.keystore.type": "PKCS12",
        },
        {"ssl.truststore.location": STORES / "trust.jks"},
        {"ssl.truststore.location": STORES / "trust.jks", "ssl.truststore.password": "storepass"},
        {"ssl.truststore.location": STORES / "trust.p12", "ssl.truststore.password": "storepass"},
    ],
)
def test_java_key_stores_are_read(settings: dict[str, object]) -> None:
    config = ClientConfig.from_mapping(
        {"bootstrap.servers": "b:1", "security.protocol": "SSL"} | settings
    )
    assert config.tls is not None
    assert config.tls.trusted or config.tls.identity


def test_pkcs12_without_its_extra_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in list(sys.modules):
        if name.startswith("cryptography"):
            monkeypatch.setitem(sys.modules, name, None)
    error = refused(ssl_truststore_location=STORES / "trust.p12")
    assert "needs the extra 'keystores'" in str(error)
    assert ".[keystores]" in error.hint


def test_without_a_memory_file_a_private_file_is_used_and_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr("os.memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with tls._private_file("content") as name:
        assert Path(name).read_text() == "content"
        assert Path(name).stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []


def test_the_repr_contains_no_part_of_a_key(identity: Identity) -> None:
    config = ClientConfig.from_mapping(
        {
            "bootstrap.servers": "b:1",
            "security.protocol": "SSL",
            "ssl.keystore.location": identity.bundle,
        }
    )
    assert text(identity.key).splitlines()[1] not in repr(config)
