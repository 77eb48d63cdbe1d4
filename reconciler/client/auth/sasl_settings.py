"""Login configuration from ``sasl.*`` settings, or an error with the reason.

Java's default for ``sasl.mechanism`` is GSSAPI, which is not supported. A file without the key but with another login module is an
error here, with the missing key in the message: guessing would hide that the next Java tool fails on the file.

``client_config`` imports this module only if the listener uses SASL.
"""

from collections.abc import Mapping
from typing import Final

from reconciler.base.secret import Secret
from reconciler.client.auth import jaas, oauth
from reconciler.client.auth.jaas import LoginModule
from reconciler.client.auth.sasl import OAuthBearer, Plain, Sasl, Scram, TokenSource
from reconciler.client.configuration.settings import ClientSettings

_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "IAMLoginModule": ("AWS_MSK_IAM",),
}
"""Login modules by class name without package, with their mechanisms."""

MECHANISMS: Final = tuple(name for names in _MODULES.values() for name in names)

_SUPPORTED: Final = f"supported are {', '.join(MECHANISMS)}"
_DEFAULT_HINT: Final = "Kafka's default is GSSAPI (Kerberos), which is not supported"


def from_settings(settings: ClientSettings, token: TokenSource | None) -> Sasl:
    """Return the mechanism that the ``sasl.*`` settings describe.

    Args:
        token: The caller's own source for OAUTHBEARER; it has priority over the settings.

    Raises:
        ConfigError: ``sasl.mechanism`` is missing or unknown, does not match the login module, or a required setting is
            missing.
    """
    module = _module(settings)
    mechanism = _mechanism(settings, module)
    if token is not None:
        if mechanism != "OAUTHBEARER":
            raise settings.error(
                "sasl.mechanism", "must be OAUTHBEARER when a token source is given"
            )
        token_source = token
        return OAuthBearer(source=lambda _: token_source)
    if mechanism == "OAUTHBEARER":
        return OAuthBearer(source=oauth.from_settings(settings, module))
    if mechanism == "AWS_MSK_IAM":
        return OAuthBearer(source=oauth.msk(settings, module))
    oauth.refuse_handlers(settings)
    username, password = _login(settings, module)
    if mechanism == "PLAIN":
        return Plain(username=username, password=password)
    if module is not None and (module.text("tokenauth") or "").lower() == "true":
        raise settings.error(
            jaas.KEY,
            "delegation tokens (tokenauth) are not supported",
            hint="log in with the user's own credentials",
        )
    return Scram(mechanism=mechanism, username=username, password=password)


def _module(settings: ClientSettings) -> LoginModule | None:
    config = settings.secret(jaas.KEY)
    if config is None or not config.reveal().strip():
        return None
    return jaas.parse(config.reveal(), location=settings.entries[jaas.KEY].location)


def _mechanism(settings: ClientSettings, module: LoginModule | None) -> str:
    serves = _MODULES.get(module.short_name) if module is not None else None
    if module is not None and serves is None:
        raise settings.error(
            jaas.KEY,
            "this login module is not supported",
            hint=f"known: {', '.join(sorted(_MODULES))}",
        )
    mechanism_name = (settings.text("sasl.mechanism") or "").upper()
    if not mechanism_name:
        fits = f"for example sasl.mechanism={serves[0]}" if serves else _SUPPORTED
        raise settings.error("sasl.mechanism", f"is missing; {fits}", hint=_DEFAULT_HINT)
    if mechanism_name not in MECHANISMS:
        raise settings.error("sasl.mechanism", f"{mechanism_name} is not supported; {_SUPPORTED}")
    if module is not None and serves is not None and mechanism_name not in serves:
        raise settings.error(
            "sasl.mechanism",
            f"{mechanism_name} cannot be used with {module.short_name} in {jaas.KEY}",
        )
    return mechanism_name


def _login(settings: ClientSettings, module: LoginModule | None) -> tuple[str, Secret]:
    options: Mapping[str, Secret] = {} if module is None else module.options
    username = settings.text("sasl.username") or options.get("username", Secret("")).reveal()
    password = settings.secret("sasl.password") or options.get("password")
    key = jaas.KEY if module is not None else "sasl.username"
    if not username:
        raise settings.error(key, "the user name is missing", hint=_LOGIN_HINT)
    if not password:
        key = jaas.KEY if module is not None else "sasl.password"
        raise settings.error(key, "the password is missing", hint=_LOGIN_HINT)
    for text in (username, password.reveal()):
        if "\0" in text:
            raise settings.error(key, "user name and password must not contain a NUL character")
    return username, password


_LOGIN_HINT: Final = (
    "give sasl.username and sasl.password, or sasl.jaas.config with a login module and both options"
)
