"""OAUTHBEARER and MSK from settings: the created token source, and refused settings."""

import asyncio
import sys
import types

import pytest

from reconciler.client import BearerToken, ClientConfig
from reconciler.client.auth.oidc import OidcTokens
from reconciler.client.auth.sasl import OAuthBearer
from reconciler.errors import AuthenticationError, ConfigError
from tests.fakes.clock import FakeClock

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
BASE = {
    "bootstrap.servers": "b-1.x.kafka.eu-west-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
}
URL = {"sasl.oauthbearer.token.endpoint.url": "https://idp.example/token"}
KAFKA = "org.apache.kafka.common.security.oauthbearer"


def source(settings: dict[str, str], clock: FakeClock | None = None) -> object:
    config = ClientConfig.from_mapping(BASE | settings)
    assert isinstance(config.sasl, OAuthBearer)
    return config.sasl.source(clock or FakeClock())


def fetch(tokens: object) -> BearerToken:
    return asyncio.run(tokens())


@pytest.mark.parametrize(
    "settings",
    [
        {
            "sasl.jaas.config": f'{MODULE} clientId="c" clientSecret="s" scope="q r" extension_a="1";'
        },
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "c",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.scope": "q r",
            "sasl.oauthbearer.extensions": "a=1",
        },
        {
            "sasl.oauthbearer.client.credentials.client.id": "c",
            "sasl.oauthbearer.client.credentials.client.secret": "s",
            "sasl.oauthbearer.scope": "q r",
            "sasl.oauthbearer.extensions": "a = 1",
            "sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}.ClientCredentialsJwtRetriever",
        },
        {
            "sasl.login.callback.handler.class": f"{KAFKA}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": f'{MODULE} clientId="c" clientSecret="s" scope="q r" extension_a="1";',
        },
    ],
)
def test_client_credentials_are_configured_with_the_keys_of_java_and_librdkafka(
    settings: dict[str, str],
) -> None:
    tokens = source(URL | settings)
    assert isinstance(tokens, OidcTokens)
    oidc_settings = tokens._settings
    assert (oidc_settings.url, oidc_settings.client_id, oidc_settings.client_secret.reveal()) == (
        "https://idp.example/token",
        "c",
        "s",
    )
    assert (oidc_settings.scope, oidc_settings.extensions) == ("q r", {"a": "1"})


def test_the_login_handler_of_strimzi_is_accepted() -> None:
    tokens = source(
        {
            "sasl.login.callback.handler.class": "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",
            "sasl.jaas.config": f'{MODULE} oauth.token.endpoint.uri="https://k/token" oauth.client.id="c" oauth.client.secret="s";',
        }
    )
    assert isinstance(tokens, OidcTokens)
    assert tokens._settings.url == "https://k/token"


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({}, "sasl.oauthbearer.token.endpoint.url", "is missing"),
        (URL, "sasl.oauthbearer.client.id", "is missing"),
        (URL | {"sasl.oauthbearer.client.id": "c"}, "sasl.oauthbearer.client.secret", "is missing"),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "http://idp.example/",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "pl4nted",
            },
            "sasl.oauthbearer.token.endpoint.url",
            "must be https",
        ),
        (
            {"sasl.login.callback.handler.class": "com.acme.Handler"},
            "sasl.login.callback.handler.class",
            "com.acme.Handler cannot be loaded",
        ),
        (
            {"sasl.client.callback.handler.class": "com.acme.Handler"},
            "sasl.client.callback.handler.class",
            "com.acme.Handler cannot be loaded",
        ),
        ({"sasl.login.class": "com.acme.Login"}, "sasl.login.class", "cannot be loaded"),
        (
            {"sasl.oauthbearer.jwt.retriever.class": f"{KAFKA}.JwtBearerJwtRetriever"},
            "sasl.oauthbearer.jwt.retriever.class",
            "cannot be loaded",
        ),
        (
            URL
            | {
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "pl4nted",
                "sasl.oauthbearer.extensions": "a",
            },
            "sasl.oauthbearer.extensions",
            "has no value",
        ),
        (
            URL
            | {
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "pl4nted",
                "sasl.oauthbearer.extensions": "auth=1",
            },
            "sasl.oauthbearer.extensions",
            "must be letters",
        ),
        (
            URL
            | {
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "pl4nted",
                "https.ca.location": "/no/such",
            },
            "https.ca.location",
            "No such file",
        ),
        *(
            (
                URL
                | {
                    "sasl.jaas.config": f'{MODULE} clientId="c" clientSecret="pl4nted" {option}="conf/ca.pem";'
                },
                f"sasl.jaas.config {option}",
                "needs an absolute path",
            )
            for option in ("ssl.truststore.location", "ssl.keystore.location")
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(
    settings: dict[str, str], key: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        source(settings)
    assert caught.value.key == key
    assert "pl4nted" not in str(caught.value) + caught.value.hint


def test_unsecured_tokens_are_refused() -> None:
    jaas = f'{MODULE} unsecuredLoginStringClaim_sub="alice";'
    with pytest.raises(ConfigError, match="unsecured tokens are not supported"):
        source({"sasl.jaas.config": jaas})


PACKAGE = "aws_msk_iam_sasl_signer"


class Signer:
    """A substitute for the signature of the extra."""

    calls: list[tuple[str, ...]]
    fail = False

    def __init__(self) -> None:
        self.calls = []

    def _sign(self, *how: str) -> tuple[str, int]:
        if self.fail:
            raise RuntimeError("pl4nted")
        self.calls.append(how)
        return "c2lnbmVk", 1_700_000_900_000

    generate_auth_token = _sign
    generate_auth_token_from_profile = _sign
    generate_auth_token_from_role_arn = _sign


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> Signer:
    new_signer = Signer()
    # The signer is a module with that name in the package, which does not import it itself.
    monkeypatch.setitem(sys.modules, PACKAGE, types.ModuleType(PACKAGE))
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.MSKAuthTokenProvider", new_signer)
    return new_signer


IAM = {
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        (
            IAM | {"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"},
            ("eu-west-1",),
        ),
        (
            IAM
            | {
                "sasl.jaas.config": 'software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="p";'
            },
            ("eu-west-1", "p"),
        ),
        (
            IAM
            | {
                "sasl.jaas.config": 'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:x" awsRoleSessionName="s";'
            },
            ("eu-west-1", "arn:x", "s"),
        ),
        (
            {
                "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": f"{MODULE};",
            },
            ("eu-west-1",),
        ),
    ],
)
def test_msk_tokens_are_created_by_the_signer(
    signer: Signer, settings: dict[str, str], arguments: tuple[str, ...]
) -> None:
    token = fetch(source(settings))
    assert token.value.reveal() == "c2lnbmVk"
    assert token.expires_at == 1_700_000_900.0
    assert signer.calls == [arguments]


def test_msk_failures_are_reported_without_the_message_of_the_signer(signer: Signer) -> None:
    signer.fail = True
    with pytest.raises(AuthenticationError, match="RuntimeError") as caught:
        fetch(source(IAM))
    assert "pl4nted" not in str(caught.value) + caught.value.hint


def test_msk_requires_a_region(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(ConfigError, match="names no AWS region"):
        source(IAM | {"bootstrap.servers": "b:1"})
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    fetch(source(IAM | {"bootstrap.servers": "b:1"}))
    assert signer.calls == [("us-east-2",)]


def test_msk_without_its_extra_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with pytest.raises(ConfigError, match="needs the extra 'msk'"):
        source(IAM)


def test_a_token_endpoint_without_the_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reconciler.client.auth.oidc", None)
    with pytest.raises(ConfigError, match="needs the extra 'http'") as caught:
        source(BASE | URL)
    assert "http" in caught.value.hint
