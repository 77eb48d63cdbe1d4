"""Secrets to client configurations: all supported notations, and errors that name the key and never the value."""

import base64
import string
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from reconciler.base.secret import Secret
from reconciler.client import ClientConfig, SecurityProtocol
from reconciler.client.auth.sasl import Plain, Scram
from reconciler.client.configuration.keys import KEYS, ValueKind
from reconciler.errors import ConfigError, CredentialsError, KquotaError
from reconciler.kube.configuration.credentials import (
    NONE,
    Credentials,
    client_config,
    credentials_of,
    granted_credentials,
)
from reconciler.manifest.project.cluster import from_spec
from tests.servers.certs import Authority

PLANTED = "pl4nted-password"


def secret(values: dict[str, str | bytes], **metadata: Any) -> dict[str, Any]:
    encoded = {
        key: base64.b64encode(value.encode() if isinstance(value, str) else value).decode()
        for key, value in values.items()
    }
    return {
        "metadata": {"name": "login", "namespace": "kafka", "resourceVersion": "7", **metadata},
        "data": encoded,
    }


def configured(
    properties: dict[str, str], values: dict[str, str | bytes], **options: bool
) -> ClientConfig:
    spec = {"bootstrapServers": "broker:9092", "properties": properties}
    cluster = from_spec("prod", {**spec, "secretRef": {"name": "login"}})
    allowed = options.get("allow_references", False)
    return client_config(cluster, credentials_of(secret(values)), allow_references=allowed)


SCRAM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
PLAIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    f' username="alice" password="{PLANTED}";'
)
FILE_JAAS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    f' clientId="i" clientSecret="{PLANTED}" ssl.keystore.location="/var/run/operator.pem";'
)


def password_of(config: ClientConfig) -> tuple[str, str]:
    assert isinstance(config.sasl, Plain | Scram)
    return config.sasl.username, config.sasl.password.reveal()


@pytest.mark.parametrize(
    "values",
    [
        {"sasl.username": "alice", "sasl.password": PLANTED},
        {"username": "alice", "password": PLANTED},
        {"username": "alice\n", "password": f"{PLANTED}\n"},
        {"username": "alice\r\n", "password": f"{PLANTED}\r\n"},
        {"sasl.jaas.config": JAAS},
        {"sasl.jaas.config": JAAS, "password": "of Strimzi's, the same as in jaas"},
        {"client.properties": f"sasl.username=alice\nsasl.password={PLANTED}\n"},
        {"client.properties": "sasl.username=bob\n", "username": "no", "sasl.username": "alice"}
        | {"password": PLANTED},
        {"sasl.username": "alice", "username": "somebody", "password": PLANTED},
    ],
)
def test_each_usual_form_of_a_login_is_accepted(values: dict[str, str | bytes]) -> None:
    assert password_of(configured(SCRAM, values)) == ("alice", PLANTED)


def test_the_secret_takes_precedence_over_the_properties_of_the_cluster_for_any_alias() -> None:
    values = {"username": "alice", "sasl.mechanisms": "PLAIN", "password": PLANTED}
    config = configured({**SCRAM, "security.protocol": "SASL_SSL", "sasl.username": "bob"}, values)
    assert isinstance(config.sasl, Plain)
    assert password_of(config) == ("alice", PLANTED)


def test_only_one_line_feed_at_the_end_is_removed_because_passwords_may_end_with_blanks() -> None:
    values: dict[str, str | bytes] = {"username": "alice", "password": f"  {PLANTED} \n\n"}
    assert password_of(configured(PLAIN, values))[1] == f"  {PLANTED} \n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("ca"), name="credentials test CA")


@pytest.mark.parametrize(("chain", "key"), [("tls.crt", "tls.key"), ("user.crt", "user.key")])
def test_certificates_of_cert_manager_and_of_strimzi_are_accepted(
    authority: Authority, chain: str, key: str
) -> None:
    identity = authority.client("alice")
    values: dict[str, str | bytes] = {
        "ca.crt": authority.certificate_file.read_bytes(),
        chain: identity.certificate.read_bytes(),
        key: identity.key.read_bytes(),
        "user.p12": b"\x00\xff binary",
        "user.password": "of the store",
        "ca.p12": b"\x00\xff",
    }
    config = configured({"security.protocol": "SSL"}, values)
    assert config.protocol is SecurityProtocol.SSL
    assert config.tls is not None
    assert config.tls.trusted
    assert config.tls.identity is not None


@pytest.mark.parametrize(
    ("properties", "values", "keys"),
    [
        (SCRAM, {"username": "a"}, {"password", "sasl.password"}),
        (SCRAM, {"password": PLANTED}, {"username", "sasl.username"}),
        (SCRAM, {}, {"username"}),
        ({"security.protocol": "SSL"}, {"ca.crt": PLANTED}, {"ca.crt"}),
        ({"security.protocol": "SSL"}, {"tls.crt": "x"}, {"tls.key"}),
        ({"security.protocol": "SSL"}, {"tls.key": "x"}, {"tls.crt"}),
        (SCRAM, {"sasl.jaas.config": f"x {PLANTED}"}, {"sasl.jaas.config"}),
        ({}, {"request.timeout.ms": PLANTED}, {"request.timeout.ms"}),
        ({}, {"ssl.key.location": "/etc/passwd"}, {"ssl.key.location"}),
        ({}, {"sasl.jaas.config": FILE_JAAS}, {"sasl.jaas.config"}),
        (PLAIN, {"username": "${env:HOME}", "password": "x"}, {"username"}),
        ({}, {"sasl.password": b"\xff\xfe"}, {"sasl.password"}),
        ({}, {"client.properties": "a=\\uqqqq"}, {"client.properties"}),
    ],
)
def test_errors_of_a_secret_are_reported_by_key(
    properties: dict[str, str], values: dict[str, str | bytes], keys: set[str]
) -> None:
    with pytest.raises(CredentialsError) as caught:
        configured(properties, values)
    assert keys <= set(caught.value.keys)
    assert "kafka/login" in str(caught.value)
    assert PLANTED not in str(caught.value) + caught.value.hint


def test_an_error_of_the_cluster_is_not_reported_as_one_of_the_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        configured({"security.protocol": "BOGUS"}, {"password": PLANTED})
    assert not isinstance(caught.value, CredentialsError)


def test_references_are_resolved_only_where_the_operator_allows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KQUOTA_TEST_PASSWORD", PLANTED)
    values: dict[str, str | bytes] = {
        "username": "alice",
        "password": "${env:KQUOTA_TEST_PASSWORD}",
    }
    with pytest.raises(CredentialsError):
        configured(PLAIN, values)
    config = configured(PLAIN, values, allow_references=True)
    assert password_of(config) == ("alice", PLANTED)


def test_without_a_secret_only_the_properties_are_used() -> None:
    cluster = from_spec("prod", {"bootstrapServers": "broker:9092"})
    config = client_config(cluster, NONE, allow_references=False)
    assert str(config.bootstrap[0]) == "broker:9092"


def test_no_text_contains_a_secret() -> None:
    credentials = credentials_of(secret({"password": PLANTED, "sasl.jaas.config": JAAS}))
    assert PLANTED not in repr(credentials)
    assert PLANTED not in repr(configured(SCRAM, {"sasl.jaas.config": JAAS}))


SECRET_KEYS = sorted(name for name, rule in KEYS.items() if rule.kind is not ValueKind.IGNORED)


@hypothesis.given(
    st.dictionaries(
        st.sampled_from([*SECRET_KEYS, "ca.crt", "tls.crt", "tls.key", "username", "password"]),
        st.text(string.printable, min_size=8, max_size=30).map(lambda text: f"{PLANTED}{text}"),
        max_size=4,
    ),
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
)
def test_no_error_contains_a_value_of_a_secret(
    values: dict[str, str | bytes], protocol: str
) -> None:
    try:
        configured({"security.protocol": protocol}, values)
    except KquotaError as error:
        text = f"{error} {error.hint} {error!r}"
        assert PLANTED not in text


def test_a_call_takes_at_most_twenty_seconds_unless_configured_otherwise() -> None:
    def timeouts(**properties: str) -> tuple[float, float]:
        spec = {"bootstrapServers": "b1:9092", "properties": properties}
        config = client_config(from_spec("prod", spec), NONE, allow_references=False)
        return config.request_seconds, config.call_seconds

    assert timeouts() == (20.0, 20.0)
    assert timeouts(**{"default.api.timeout.ms": "45000"}) == (30.0, 45.0)
    assert timeouts(**{"request.timeout.ms": "5000"}) == (5.0, 60.0)


# ---- who may use a Secret, and where it is sent ----------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "granted"),
    [
        ({}, False),
        (None, False),
        ({"kafka-quotas.io/quota-cluster": ""}, False),
        ({"kafka-quotas.io/quota-cluster": "production"}, False),
        ({"kafka-quotas.io/quota-cluster": "*"}, False),
        ({"kafka-quotas.io/quota-cluster": "prod"}, True),
        ({"kafka-quotas.io/quota-cluster": "test, prod"}, True),
    ],
)
def test_a_secret_is_read_only_for_the_quota_clusters_that_it_names(
    annotations: dict[str, str] | None, granted: bool
) -> None:
    metadata = {"name": "login", "namespace": "ops", "annotations": annotations}
    obj = {"metadata": metadata, "data": {"password": base64.b64encode(b"planted-pw").decode()}}
    if granted:
        assert granted_credentials(obj, "prod").texts["sasl.password"].reveal() == "planted-pw"
        return
    with pytest.raises(CredentialsError) as caught:
        granted_credentials(obj, "prod")
    assert (
        "kubectl --namespace ops annotate --overwrite secret login kafka-quotas.io/quota-cluster="
        in str(caught.value)
    )
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, True),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, False),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "ssl.endpoint.identification.algorithm": "",
            },
            True,
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "enable.ssl.certificate.verification": "false",
            },
            True,
        ),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}, False),
    ],
)
def test_a_password_is_sent_only_to_a_broker_whose_certificate_and_name_are_verified(
    properties: dict[str, str], refused: bool
) -> None:
    cluster = from_spec("prod", {"bootstrapServers": "b:9092", "properties": properties})
    credentials = Credentials(
        name="ops/login",
        version="1",
        texts={"sasl.username": Secret("alice"), "sasl.password": Secret("planted-pw")},
    )
    if refused:
        with pytest.raises(ConfigError, match="sends the secret itself"):
            client_config(cluster, credentials, allow_references=False)
    else:
        assert client_config(cluster, credentials, allow_references=False).sasl is not None
    assert client_config(cluster, credentials, allow_references=True).sasl is not None
