"""Token sources from ``sasl.oauthbearer.*``, JAAS options and callback handler classes.

Java configures a class that fetches tokens; this client has equivalents of known classes and refuses others
with a hint. An unknown class is never ignored: the client would log in as another principal.
"""

import asyncio
import importlib
import os
import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reconciler.base.backoff import Backoff
from reconciler.base.installation import install_hint
from reconciler.base.protocols import Clock
from reconciler.base.secret import Secret
from reconciler.client.auth import jaas
from reconciler.client.auth.jaas import LoginModule
from reconciler.client.auth.sasl import BearerToken, TokenSource, check_extensions
from reconciler.client.configuration.settings import ClientSettings, Setting
from reconciler.client.tls import context
from reconciler.errors import AuthenticationError, ConfigError

if TYPE_CHECKING:
    from reconciler.client.auth.oidc import OidcSettings, OidcTokens

Maker = Callable[[Clock], TokenSource]

_HANDLERS: Final = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
_TWINS: Final = {
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler": "oidc",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler": "oidc",
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler": "msk",
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": "msk",
    "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler": "oidc",
}
"""Callback handler classes with a built-in equivalent."""

_RETRIEVERS: Final = {
    "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever",
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
}
_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_MSK_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:amazonaws|api\.aws)")


def from_settings(settings: ClientSettings, module: LoginModule | None) -> Maker:
    """Return the factory of the token source for OAUTHBEARER.

    Raises:
        ConfigError: A handler class has no equivalent here, or a required setting is missing.
    """
    options: Mapping[str, Secret] = {} if module is None else module.options
    if _equivalent_key(settings) == "msk":
        return msk(settings, module)
    if any(name.startswith("unsecuredLogin") for name in options):
        raise settings.error(jaas.KEY, "unsecured tokens are not supported", hint=_FLOW_HINT)
    try:  # needs an HTTP client, which other logins do not
        oidc: Any = importlib.import_module("reconciler.client.auth.oidc")
    except ImportError:
        raise settings.error(
            "sasl.mechanism", "a token endpoint needs the extra 'http'", hint=install_hint("http")
        ) from None
    make_tokens: type[OidcTokens] = oidc.OidcTokens
    oidc_settings = _oidc(settings, options, oidc.OidcSettings)
    return lambda clock: make_tokens(oidc_settings, clock)


def refuse_handlers(settings: ClientSettings) -> None:
    """Refuse handler classes for mechanisms that need none: a class could log in as another principal.

    Raises:
        ConfigError: A handler class is set.
    """
    for key in (*_HANDLERS, "sasl.login.class"):
        if settings.text(key):
            raise settings.error(
                key,
                "Java classes cannot be loaded here",
                hint="give user name and password in this file",
            )


def msk(settings: ClientSettings, module: LoginModule | None) -> Maker:
    """Return the factory of the token source for Amazon MSK with IAM; needs the extra ``msk``.

    Raises:
        ConfigError: The extra is not installed, or no region is configured.
    """
    options: Mapping[str, Secret] = {} if module is None else module.options
    try:
        signer: Any = importlib.import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError:
        raise settings.error(
            "sasl.mechanism", "AWS_MSK_IAM needs the extra 'msk'", hint=install_hint("msk")
        ) from None
    region = _region(settings)

    def text(option: str) -> str:
        return options.get(option, Secret("")).reveal()

    def generate() -> tuple[str, int]:
        token_and_expiry: tuple[str, int]
        if role := text("awsRoleArn"):
            session = text("awsRoleSessionName") or "kquota"
            token_and_expiry = signer.generate_auth_token_from_role_arn(region, role, session)
        elif profile := text("awsProfileName"):
            token_and_expiry = signer.generate_auth_token_from_profile(region, profile)
        else:
            token_and_expiry = signer.generate_auth_token(region)
        return token_and_expiry

    async def fetch() -> BearerToken:
        try:
            value, expires_ms = await asyncio.to_thread(generate)
        except Exception as error:  # noqa: BLE001 - botocore raises its own tree
            raise AuthenticationError(
                f"no token for MSK in {region}: {type(error).__name__}",
                hint="check the AWS credentials of this process with: aws sts get-caller-identity",
            ) from None
        return BearerToken(value=Secret(value), expires_at=expires_ms / 1000)

    return lambda _: fetch


def _equivalent_key(settings: ClientSettings) -> str:
    """Return ``oidc``, ``msk`` or "" if no handler is set."""
    equivalent = ""
    for key in _HANDLERS:
        name = settings.text(key)
        if not name:
            continue
        if name not in _TWINS:
            raise settings.error(
                key, f"the Java class {name} cannot be loaded here", hint=_HANDLER_HINT
            )
        equivalent = _TWINS[name]
    retriever = settings.text("sasl.oauthbearer.jwt.retriever.class")
    if retriever and retriever not in _RETRIEVERS:
        raise settings.error(
            "sasl.oauthbearer.jwt.retriever.class",
            f"the Java class {retriever} cannot be loaded here",
            hint=_HANDLER_HINT,
        )
    if settings.text("sasl.login.class"):
        raise settings.error("sasl.login.class", "Java classes cannot be loaded here")
    return equivalent


def _oidc(
    settings: ClientSettings, options: Mapping[str, Secret], make: "Callable[..., OidcSettings]"
) -> "OidcSettings":
    def first(key: str, *names: str) -> Secret | None:
        return settings.secret(key) or next(
            (options[name] for name in names if options.get(name)), None
        )

    url = first(_URL, "oauth.token.endpoint.uri")
    client_id = first("sasl.oauthbearer.client.id", "clientId", "oauth.client.id")
    secret = first("sasl.oauthbearer.client.secret", "clientSecret", "oauth.client.secret")
    for key, value in (
        (_URL, url),
        ("sasl.oauthbearer.client.id", client_id),
        ("sasl.oauthbearer.client.secret", secret),
    ):
        if not value:
            raise settings.error(key, "is missing", hint=_FLOW_HINT)
    scope = first("sasl.oauthbearer.scope", "scope", "oauth.scope")
    life = settings.seconds("sasl.login.retry.backoff.max.ms", 10.0)
    try:
        return make(
            url=url.reveal().strip() if url else "",
            client_id=client_id.reveal().strip() if client_id else "",
            client_secret=secret or Secret(""),
            scope=scope.reveal().strip() if scope else "",
            extensions=_extensions(settings, options),
            urlencode=settings.switch("sasl.oauthbearer.header.urlencode", default=False),
            connect_seconds=settings.seconds("sasl.login.read.timeout.ms", 10.0) or 10.0,
            retry=Backoff(
                first=settings.seconds("sasl.login.retry.backoff.ms", 0.1) or 0.1, cap=life or 10.0
            ),
            tries_for=life or 10.0,
            tls=_endpoint_tls(settings, options),
        )
    except ConfigError as error:
        raise settings.error(error.key or _URL, error.message.partition(": ")[2]) from None


def _extensions(settings: ClientSettings, options: Mapping[str, Secret]) -> dict[str, str]:
    """Parse ``name=value,name=value`` of librdkafka, and ``extension_name`` options of JAAS."""
    key = "sasl.oauthbearer.extensions"
    extensions = {
        name.removeprefix("extension_"): value.reveal()
        for name, value in options.items()
        if name.startswith("extension_")
    }
    for pair in settings.items(key):
        name, sign, value = pair.partition("=")
        if not sign:
            raise settings.error(key, f"{name!r} has no value; write name=value")
        extensions[name.strip()] = value.strip()
    try:
        check_extensions(extensions)
    except ConfigError as error:
        # If the extensions come from a JAAS entry, their names may be pieces of a password.
        message = (
            error.message
            if key in settings
            else "a SASL extension is not of the form that RFC 7628 allows"
        )
        raise settings.error(key, message) from None
    return extensions


def _endpoint_tls(settings: ClientSettings, options: Mapping[str, Secret]) -> ssl.SSLContext | None:
    """Return the TLS context of the token endpoint: ``https.ca.*`` of librdkafka or ``ssl.*`` options of JAAS, as in Kafka."""
    tls_settings = {
        name: Setting(name=f"{jaas.KEY} {name}", text=value.reveal(), location=settings.location)
        for name, value in options.items()
        if name.startswith("ssl.")
    }
    for name, setting in tls_settings.items():
        path = setting.text.strip()
        # Other paths of a project start from its folder; this one would start from the working directory.
        if name.endswith(".location") and path and not Path(path).is_absolute():
            raise setting.error("needs an absolute path", hint="https.ca.location may be relative")
    for https, own_key in (
        ("https.ca.location", "ssl.ca.location"),
        ("https.ca.pem", "ssl.truststore.certificates"),
    ):
        if https in settings:
            tls_settings[own_key] = settings.entries[https]
    if not tls_settings:
        return None
    endpoint = ClientSettings(
        entries=tls_settings, warnings=(), location=settings.location, files=settings.files
    )
    return context.from_settings(endpoint).context()


def _region(settings: ClientSettings) -> str:
    for server in settings.items("bootstrap.servers"):
        match = _MSK_HOST.search(server)
        if match:
            return match.group(1)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise settings.error(
            "bootstrap.servers", "names no AWS region", hint="set AWS_REGION for AWS_MSK_IAM"
        )
    return region


_HANDLER_HINT: Final = (
    "known: "
    + ", ".join(sorted({name.rpartition(".")[2] for name in _TWINS}))
    + "; in Python, pass token= with your own source"
)
_FLOW_HINT: Final = (
    "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, .client.id and .client.secret,"
    " or a token source passed as token="
)
