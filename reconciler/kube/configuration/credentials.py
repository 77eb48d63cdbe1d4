"""Builds a client configuration from a QuotaCluster and its Secret. Without I/O and state.

Keys of the Secret, and what they mean:
- the name of a client property (Java's or librdkafka's), its value as text, PEM texts included;
- ``client.properties``: a whole Java properties text; a separate key overrides it;
- the keys of cert-manager, ``kubernetes.io/basic-auth`` and Strimzi's user Secrets: ``ca.crt``, ``tls.crt`` and
  ``tls.key`` (or ``user.crt`` and ``user.key``), ``username`` and ``password``. The equivalent property overrides
  them.

One line feed at the end of a value is dropped: files end with one, passwords do not. The Secret overrides the
properties of the QuotaCluster.
"""

import base64
import binascii
import contextlib
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from reconciler.base import properties
from reconciler.base.redaction import QuietRepr
from reconciler.base.secret import Secret, scrubbed
from reconciler.client import ANYTHING, NOTHING, ClientConfig
from reconciler.client.auth import jaas, sasl
from reconciler.client.configuration.keys import KEYS
from reconciler.errors import ConfigError, CredentialsError, KquotaError
from reconciler.kube.api.custom_resources import GROUP
from reconciler.manifest.project.cluster import QuotaCluster

WHOLE_FILE: Final = "client.properties"
CONVENIENT: Final[Mapping[str, str]] = {
    "ca.crt": "ssl.truststore.certificates",
    "tls.crt": "ssl.keystore.certificate.chain",
    "user.crt": "ssl.keystore.certificate.chain",
    "tls.key": "ssl.keystore.key",
    "user.key": "ssl.keystore.key",
    "username": "sasl.username",
    "password": "sasl.password",
}
"""Keys that other tools write, with the equivalent property."""

GRANTED_TO: Final = f"{GROUP}/quota-cluster"
"""Annotation of a Secret: the QuotaClusters that may use it, separated by commas."""

_UNUSED: Final = frozenset({"ca.p12", "ca.password", "user.p12", "user.password", "ca.key"})
"""Further keys that Strimzi writes: the same content in a format that is not needed here."""

_SHORTEST: Final = 4
"""Shorter texts are not hidden in messages: they would blank out half a sentence."""

_QUOTED: Final = re.compile(r"""(['"]).*\1""", re.DOTALL)
"""From the first quote to the last: a quoted value may contain quotes, and escapes prevent comparing it."""

_KEYS_BY_CONCERN: Final = {
    prop: tuple(key for key, kafka_name in CONVENIENT.items() if kafka_name == prop)
    for prop in CONVENIENT.values()
}


class Credentials(QuietRepr, Struct, frozen=True, kw_only=True):
    """The texts of a Secret."""

    name: str = ""  # `namespace/name`, for messages
    version: str = ""  # its resource version; "" = no Secret, and none is required
    # Client properties; hidden.
    texts: Mapping[str, Secret] = field(default_factory=dict)


NONE: Final = Credentials()
"""Credentials of a cluster without a Secret."""


class SecretState(Struct, frozen=True, kw_only=True):
    """The credentials of one cluster, as its status shows them."""

    # Resource version of the Secret that the session was built with; "" = there is no Secret.
    version: str = ""
    rejected_version: str = ""  # version that cannot be used; "" = none. The old session stays.
    problem: KquotaError | None = None  # why it cannot be used; None = no problem


class SecretWithdrawn(CredentialsError):
    """A Secret does not list the QuotaCluster in its annotation, so its credentials and open sessions are not used."""


def credentials_of(obj: Mapping[str, Any]) -> Credentials:
    """Return the client properties of a Secret.

    Raises:
        CredentialsError: A value is not UTF-8 text or not valid base64; the message lists the keys.
    """
    metadata = obj.get("metadata") or {}
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    texts_by_key: dict[str, str] = {}
    for key, value in sorted((obj.get("data") or {}).items()):
        if key not in _UNUSED:
            texts_by_key[key] = _text(name, key, value)
    texts = _of_file(name, texts_by_key.pop(WHOLE_FILE, "")) | {
        key: text for key, text in texts_by_key.items() if key not in CONVENIENT
    }
    given_names = {KEYS[key].name for key in texts if key in KEYS}
    for key, prop in CONVENIENT.items():
        is_overridden = prop in given_names or (
            prop.startswith("sasl.") and "sasl.jaas.config" in given_names
        )
        if key in texts_by_key and not is_overridden:
            _ = texts.setdefault(prop, texts_by_key[key])
    return Credentials(
        name=name,
        version=str(metadata.get("resourceVersion", "")),
        texts={key: Secret(text) for key, text in texts.items()},
    )


def granted_credentials(obj: Mapping[str, Any], cluster: str) -> Credentials:
    """Return the client properties of a Secret that lists the QuotaCluster in its annotation.

    The author of a QuotaCluster chooses the Secret and the broker, so only the Secret itself can grant its use.

    Raises:
        SecretWithdrawn: The annotation does not list the QuotaCluster.
        CredentialsError: A value cannot be used.
    """
    metadata = obj.get("metadata") or {}
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    annotations = metadata.get("annotations")
    text = annotations.get(GRANTED_TO, "") if isinstance(annotations, Mapping) else ""
    names = [name.strip() for name in str(text).split(",") if name.strip()]
    if cluster not in names:
        value = ",".join([*names, cluster])
        raise SecretWithdrawn(
            f"Secret {namespace}/{name} does not allow QuotaCluster {cluster}: its annotation {GRANTED_TO} does not list it;"
            f" run kubectl --namespace {namespace} annotate --overwrite secret {name} {GRANTED_TO}={value}",
            hint="only users who can edit the Secret can allow a QuotaCluster to use it",
        )
    return credentials_of(obj)


def _text(name: str, key: str, value: object) -> str:
    try:
        text = base64.b64decode(str(value), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise CredentialsError(
            f"Secret {name}: the value of {key} is no text",
            keys=(key,),
            hint="key stores are binary: put PEM texts in ca.crt, tls.crt and tls.key instead",
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def _of_file(name: str, text: str) -> dict[str, str]:
    try:
        return {pair.key: pair.value for pair in properties.parse(text, location=WHOLE_FILE)}
    except ConfigError as error:
        raise CredentialsError(
            f"Secret {name}: {error.message}", keys=(WHOLE_FILE,), hint=error.hint
        ) from None


_CALL: Final = "default.api.timeout.ms"
_REQUEST: Final = "request.timeout.ms"

CALL_MILLISECONDS: Final = "20000"
"""Default timeout of a call: a loop that retries need not wait a minute, while documents still show their old
status. Alterations have separate deadlines."""


def client_config(
    cluster: QuotaCluster, credentials: Credentials, *, allow_references: bool
) -> ClientConfig:
    """Return the client configuration of a cluster.

    Args:
        cluster: The configuration; its references were checked before (``cluster_references``).
        credentials: :data:`NONE` if there is no Secret.
        allow_references: Whether file paths and ``${file:...}`` on the operator's own disk are resolved.

    Raises:
        CredentialsError: A key of the Secret is missing or cannot be used. No value is quoted.
        ConfigError: A property of the QuotaCluster cannot be used.
    """
    if not allow_references:
        _refuse_paths(credentials)
    merged: dict[str, object] = {
        key: value
        for key, value in cluster.properties.items()
        if _canonical(key) not in {_canonical(key) for key in credentials.texts}
    }
    merged |= dict(credentials.texts)
    if not {_canonical(key) for key in merged} & {_CALL, _REQUEST}:
        merged[_CALL] = CALL_MILLISECONDS
    try:
        config = ClientConfig.from_mapping(
            merged, allowed=ANYTHING if allow_references else NOTHING
        )
    except ConfigError as error:
        raise _judged(error, cluster, credentials) from None
    if not allow_references:
        _refuse_readable_secrets(config)
    return config


def _refuse_readable_secrets(config: ClientConfig) -> None:
    """Require verified TLS, including the host name, for mechanisms that send passwords or tokens.

    Raises:
        ConfigError: The mechanism sends the secret itself, and the connection is not verified TLS.
    """
    mechanism = "" if config.sasl is None else config.sasl.mechanism
    if mechanism not in sasl.SENT:
        return
    verified = config.tls is not None and config.tls.verify and config.tls.check_name
    if not verified:
        raise ConfigError(
            f"sasl.mechanism={mechanism} sends the secret itself, so it needs security.protocol=SASL_SSL with verification of"
            " the certificate and of the host name",
            key="security.protocol"
            if config.tls is None
            else "ssl.endpoint.identification.algorithm",
            hint="use TLS, or SCRAM-SHA-512, which never sends the password",
        )


def _canonical(key: str) -> str:
    return KEYS[key].name if key in KEYS else key


def _refuse_paths(credentials: Credentials) -> None:
    for key, text in credentials.texts.items():
        if _canonical(key).endswith(".location") or (key == jaas.KEY and _names_file(text)):
            raise CredentialsError(
                f"Secret {credentials.name}: {key} refers to a file, which is refused",
                keys=(key,),
                hint="put the PEM text itself into the Secret: ca.crt, tls.crt, tls.key; https.ca.pem for a token endpoint",
            )


def _names_file(login_module: Secret) -> bool:
    """Whether an option of ``sasl.jaas.config`` names a file; an entry that is no login module does not."""
    with contextlib.suppress(ConfigError):
        options = jaas.parse(login_module.reveal()).options
        return any(option.endswith(".location") for option in options)
    return False


def _judged(error: ConfigError, cluster: QuotaCluster, credentials: Credentials) -> ConfigError:
    """Attribute an error to a missing key, a key of the Secret, or a property of the QuotaCluster."""
    concerned, hint = _canonical(error.key), error.hint
    if not credentials.version:
        return error
    # Wrong settings are quoted if they are not secrets, but two keys may have been swapped.
    long = [secret for secret in credentials.texts.values() if len(secret.reveal()) >= _SHORTEST]
    message = scrubbed(_QUOTED.sub("<hidden>", error.message), *long)
    is_of_secret = concerned in {_canonical(key) for key in credentials.texts}
    if not is_of_secret and (
        not concerned or concerned in {_canonical(key) for key in cluster.properties}
    ):
        return ConfigError(message, key=error.key, location=error.where, hint=hint)
    keys = (concerned, *_KEYS_BY_CONCERN.get(concerned, ()))
    return CredentialsError(f"Secret {credentials.name}: {message}", keys=keys, hint=hint)
