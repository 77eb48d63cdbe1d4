from pathlib import Path

import pytest

from reconciler.client import ANYTHING, BearerToken, ClientConfig, Secret
from reconciler.client.auth.sasl import OAuthBearer, Plain, Scram
from reconciler.client.client_config import (
    Address,
    SecurityProtocol,
    literal_secrets,
    static_problems,
)
from reconciler.client.configuration.keys import FOREIGN, KEYS, ValueKind
from reconciler.errors import ConfigError

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="pl4nted";'
SCRAM = PLAIN.replace("plain.Plain", "scram.Scram")
SASL = {"bootstrap.servers": "b:9092", "security.protocol": "SASL_PLAINTEXT"}


def client_config(**settings: object) -> ClientConfig:
    return ClientConfig.from_mapping(
        {"bootstrap.servers": "b:9092"}
        | {key.replace("_", "."): value for key, value in settings.items()}
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1,b:2", ("a:1", "b:2")),
        (" a:1 , ,b:2,", ("a:1", "b:2")),
        ("[::1]:9092", ("[::1]:9092",)),
        ("SASL_SSL://a:1", ("a:1",)),
        ("a:1,a:1", ("a:1",)),
        (["a:1", "b:2"], ("a:1", "b:2")),
    ],
)
def test_addresses_are_parsed(text: object, expected: tuple[str, ...]) -> None:
    assert (
        tuple(str(address) for address in client_config(bootstrap_servers=text).bootstrap)
        == expected
    )


@pytest.mark.parametrize("text", ["", " , "])
def test_empty_bootstrap_servers_are_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers: is empty"):
        client_config(bootstrap_servers=text)


def test_missing_bootstrap_servers_are_an_error_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=PLAINTEXT\n")
    with pytest.raises(ConfigError, match=rf"{path}: bootstrap\.servers: is missing"):
        ClientConfig.from_properties(path)


def test_overrides_take_precedence_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nclient.id=x\n")
    config = ClientConfig.from_properties(path, overrides={"bootstrap.servers": "b:2"})
    assert (str(config.bootstrap[0]), config.client_id) == ("b:2", "x")


def test_errors_name_file_line_and_key(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\n\nrequest.timeout.ms=soon\n")
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_properties(path)
    assert str(caught.value) == f"{path}:3: request.timeout.ms: 'soon' is not a whole number"
    assert (caught.value.key, caught.value.where) == ("request.timeout.ms", f"{path}:3")


def test_references_in_values_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pl4nted")
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=a:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.username=alice\nsasl.password=${{directory:{tmp_path}:password}}\n"
    )
    with pytest.raises(ConfigError, match="may not read"):
        ClientConfig.from_properties(path)
    config = ClientConfig.from_properties(path, allowed=ANYTHING)
    assert config.sasl == Plain(username="alice", password=Secret("pl4nted"))


def test_librdkafka_keys_are_accepted() -> None:
    config = ClientConfig.from_librdkafka(
        {
            "metadata.broker.list": "b:9092",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "pl4nted",
            "socket.timeout.ms": 7000,
            "broker.address.family": "v4",
            "debug": "all",
        }
    )
    assert config.sasl == Plain(username="alice", password=Secret("pl4nted"))
    assert (config.request_seconds, config.address_family) == (7.0, "v4")


def test_an_alias_that_contradicts_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.mechanisms: contradicts sasl\.mechanism"):
        client_config(sasl_mechanism="PLAIN", sasl_mechanisms="GSSAPI")
    assert client_config(sasl_mechanism="PLAIN", sasl_mechanisms="PLAIN")


def test_controller_addresses_are_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="controllers do not answer DescribeClientQuotas"):
        client_config(bootstrap_controllers="c:9093")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("boostrap.servers", "did you mean bootstrap.servers?"),
        ("acks", "acks is a producer setting and has no effect here"),
        ("group.id", "group.id is a consumer setting and has no effect here"),
        ("zz.zz", "unknown key 'zz.zz' is ignored"),
        ("hunter2", "a key that is not a setting name is ignored"),
    ],
)
def test_only_unknown_keys_cause_a_warning(key: str, words: str) -> None:
    (warning,) = ClientConfig.from_mapping(
        {"bootstrap.servers": "b:1", key: "x"}, location="f"
    ).warnings
    assert warning.startswith("f: ")
    assert words in warning


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("security.protocl", "did you mean security.protocol?"),
        ("securty.protocol", "did you mean security.protocol?"),
        ("sasl.jaas.conf", "did you mean sasl.jaas.config?"),
        ("ssl.unheard.of", "remove it, or correct its name"),
    ],
)
def test_an_unknown_key_about_tls_or_login_is_refused(key: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown key '{key}'") as refused:
        _ = ClientConfig.from_mapping({"bootstrap.servers": "b:1", key: "x"})
    assert refused.value.hint == hint


def test_properties_are_checked_without_their_references() -> None:
    properties = {
        "bootstrap.servers": "broker-1",
        "security.protocl": "${env:PROTOCOL}",
        "sasl.username": "${env:NOT_SET}",
    }
    assert list(static_problems(properties)) == [
        "bootstrap.servers: 'broker-1' is not host:port; for example broker1:9092,broker2:9092",
        "unknown key 'security.protocl'; did you mean security.protocol?",
    ]
    secrets = {"sasl.password": "hunter2", "ssl.key.password": "${env:PW}", "client.id": "x"}
    assert list(literal_secrets(secrets)) == ["sasl.password"]


def test_the_tables_of_keys_do_not_overlap() -> None:
    assert not KEYS.keys() & FOREIGN.keys()
    for name, rule in KEYS.items():
        assert name == rule.name or name in rule.aliases
        assert KEYS[rule.name] is rule
        if any(word in name for word in ("password", "secret", "jaas.config")):
            assert rule.kind is ValueKind.HIDDEN


@pytest.mark.parametrize(
    "key",
    sorted(name for name, rule in KEYS.items() if rule.kind in {ValueKind.MILLIS, ValueKind.COUNT}),
)
@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "99999999999"])
def test_numbers_must_be_whole_and_within_bounds(key: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_mapping({"bootstrap.servers": "b:1", key: text})
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"request_timeout_ms": 2000, "default_api_timeout_ms": 1000}, "default.api.timeout.ms"),
        ({"request_timeout_ms": 0}, "request.timeout.ms"),
        ({"default_api_timeout_ms": 0}, "default.api.timeout.ms"),
        ({"retry_backoff_ms": 2000, "retry_backoff_max_ms": 1000}, "retry.backoff.max.ms"),
        (
            {"reconnect_backoff_ms": 2000, "reconnect_backoff_max_ms": 1000},
            "reconnect.backoff.max.ms",
        ),
        (
            {
                "socket_connection_setup_timeout_ms": 2000,
                "socket_connection_setup_timeout_max_ms": 1000,
            },
            "socket.connection.setup.timeout.max.ms",
        ),
    ],
)
def test_contradictory_timeouts_are_errors(settings: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client_config(**settings)
    assert caught.value.key == key


def test_if_one_of_two_timeouts_is_given_the_other_is_derived() -> None:
    assert client_config(request_timeout_ms=90_000).call_seconds == 90.0
    assert client_config(default_api_timeout_ms=10_000).request_seconds == 10.0
    assert client_config(retry_backoff_ms=5000).retry.cap == 5.0
    assert client_config(retry_backoff_max_ms=50).retry.first == 0.05


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
            Plain(username="alice", password=Secret("pl4nted")),
        ),
        (
            {"sasl.mechanism": "scram-sha-256", "sasl.jaas.config": SCRAM},
            Scram(mechanism="SCRAM-SHA-256", username="alice", password=Secret("pl4nted")),
        ),
    ],
)
def test_every_login_mechanism_is_configured(settings: dict[str, str], expected: object) -> None:
    assert ClientConfig.from_mapping(SASL | settings).sasl == expected


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({}, "sasl.mechanism", "is missing; supported are PLAIN, SCRAM-SHA-256"),
        ({"sasl.jaas.config": PLAIN}, "sasl.mechanism", "for example sasl.mechanism=PLAIN"),
        ({"sasl.jaas.config": SCRAM}, "sasl.mechanism", "for example sasl.mechanism=SCRAM-SHA-256"),
        (
            {"sasl.mechanism": "DIGEST-MD5"},
            "sasl.mechanism",
            "DIGEST-MD5 is not supported; supported are PLAIN",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM},
            "sasl.mechanism",
            "cannot be used with ScramLoginModule",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "com.acme.Login required;"},
            "sasl.jaas.config",
            "this login module is not supported",
        ),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username", "user name is missing"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "sasl.password", "password is missing"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN.replace("username", "user")},
            "sasl.jaas.config",
            "user name is missing",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.username": "a\0", "sasl.password": "p"},
            "sasl.username",
            "NUL",
        ),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"},
            "sasl.mechanism",
            "GSSAPI is not supported; supported are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        (
            {"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
            "sasl.jaas.config",
            "this login module is not supported",
        ),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.username": "a",
                "sasl.password": "p",
                "sasl.client.callback.handler.class": "com.acme.X",
            },
            "sasl.client.callback.handler.class",
            "cannot be loaded",
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": SCRAM.replace("required", 'required tokenauth="true"'),
            },
            "sasl.jaas.config",
            "delegation tokens",
        ),
    ],
)
def test_logins_that_cannot_work_are_refused(
    settings: dict[str, str], key: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        ClientConfig.from_mapping(SASL | settings)
    assert caught.value.key == key
    assert "pl4nted" not in str(caught.value)


def test_a_token_source_of_the_caller_requires_oauthbearer() -> None:
    async def source() -> BearerToken:
        return BearerToken(value=Secret("a.b.c"))

    config = ClientConfig.from_mapping(SASL | {"sasl.mechanism": "OAUTHBEARER"}, token=source)
    assert isinstance(config.sasl, OAuthBearer)
    with pytest.raises(ConfigError, match="must be OAUTHBEARER"):
        ClientConfig.from_mapping(SASL | {"sasl.mechanism": "PLAIN"}, token=source)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (SASL | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}, "sent unencrypted"),
        (
            {"ssl.truststore.location": "/x"},
            "ssl.truststore.location has no effect with security.protocol=PLAINTEXT",
        ),
        (
            {"sasl.mechanism": "PLAIN"},
            "sasl.mechanism has no effect with security.protocol=PLAINTEXT",
        ),
        (
            {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
            "an attacker on the network",
        ),
    ],
)
def test_doubtful_settings_cause_a_warning(settings: dict[str, str], words: str) -> None:
    warnings = ClientConfig.from_mapping({"bootstrap.servers": "b:1"} | settings).warnings
    assert any(words in warning for warning in warnings)


def test_a_contradictory_configuration_is_rejected() -> None:
    address = Address(host="b", port=1)
    with pytest.raises(ConfigError, match="TLS settings"):
        ClientConfig(bootstrap=(address,), protocol=SecurityProtocol.SSL)
    with pytest.raises(ConfigError, match="SASL settings"):
        ClientConfig(bootstrap=(address,), protocol=SecurityProtocol.SASL_PLAINTEXT)
    with pytest.raises(ConfigError, match="is missing"):
        ClientConfig(bootstrap=())


def test_secrets_may_be_passed_as_secret_objects() -> None:
    config = ClientConfig.from_mapping(
        SASL | {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": Secret("pl4nted")}
    )
    assert config.sasl == Plain(username="a", password=Secret("pl4nted"))


def test_a_configuration_can_be_copied_with_other_addresses() -> None:
    config = client_config(client_id="x").at(Address(host="c", port=3))
    assert (str(config.bootstrap[0]), config.client_id) == ("c:3", "x")


@pytest.mark.parametrize(
    "key",
    [
        "security.protocol",
        "bootstrap.servers",
        "request.timeout.ms",
        "sasl.mechanism",
        "ssl.truststore.location",
        "ssl.keystore.type",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.extensions",
        "enable.ssl.certificate.verification",
        "sasl.login.callback.handler.class",
        "ssl.protocol",
    ],
)
@pytest.mark.parametrize("value", ["correct horse,Pl4nted", "pl4nted-S3cret", "pl=4;nted@x/y?z"])
def test_a_resolved_value_under_an_unknown_key_is_not_quoted(
    key: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", value)
    settings = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.token.endpoint.url": "https://x/",
        key: "${env:PLANTED}",
    }
    try:
        _ = ClientConfig.from_mapping(settings, allowed=ANYTHING)
    except ConfigError as error:
        error_text = f"{error} {error.hint} {error.where} {error.args}".lower()
        assert not any(
            part.lower() in error_text for part in (value, *value.split(","), *value.split())
        )
    else:
        assert key in {"sasl.oauthbearer.extensions", "ssl.keystore.type"}


SASL_SSL = {
    "bootstrap.servers": "b:1",
    "security.protocol": "SASL_SSL",
    "sasl.username": "u",
    "sasl.password": "p",
}
BEARER = SASL_SSL | {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.token.endpoint.url": "https://x/",
}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (BEARER | {"security.protocol": "SASL_PLAINTEXT"}, "the token is sent unencrypted"),
        (
            BEARER | {"ssl.endpoint.identification.algorithm": ""},
            "any server with a trusted certificate receives the token",
        ),
        (
            SASL_SSL | {"sasl.mechanism": "PLAIN", "ssl.endpoint.identification.algorithm": ""},
            "any server with a trusted certificate receives the password",
        ),
        (BEARER | {"ssl.provider": "x"}, "ssl.provider is ignored"),
        (BEARER | {"ssl.providers": "legacy"}, "ssl.providers is ignored"),
        (BEARER | {"ssl.curves.list": "P-256"}, "ssl.curves.list is ignored"),
        (BEARER | {"ssl.sigalgs.list": "x"}, "ssl.sigalgs.list is ignored"),
        (
            BEARER | {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
            "TLS_AES_256_GCM_SHA384 is ignored",
        ),
    ],
)
def test_settings_that_weaken_a_connection_or_are_ignored_cause_a_warning(
    settings: dict[str, str], words: str
) -> None:
    assert any(words in warning for warning in ClientConfig.from_mapping(settings).warnings)


@pytest.mark.parametrize("key", ["ssl.crl.location", "ssl.engine.factory.class"])
def test_a_protection_that_is_not_supported_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="is not supported"):
        ClientConfig.from_mapping(BEARER | {key: "x"})
    assert ClientConfig.from_mapping(BEARER | {key: ""}).bootstrap
