"""Reads Prometheus' `http_config` (authorization, TLS, headers) from a file; secrets are redacted from all output."""

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec import field as _field

from reconciler.base.redaction import QuietRepr, SecretScrubber, redact_urls, remember
from reconciler.codecs.reader import converted
from reconciler.errors import ConfigError, ManifestErrors, Problem, TelemetryError
from reconciler.manifest.syntax import yaml_parser
from reconciler.manifest.syntax.nodes import Node, to_json

_WAYS: Final = ("basic_auth", "authorization", "bearer_token", "bearer_token_file")
_TENANTS: Final = frozenset(
    {
        "x-scope-orgid",
        "thanos-tenant",
        "accountid",
        "projectid",
        "user-agent",
        "accept",
        "accept-language",
    }
)
"""Headers that identify a tenant or client; all others may contain a secret and count as credentials."""

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LEAST_SECRET: Final = 4
"""Shorter secrets are not redacted: they would match everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """HTTP settings for all requests."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    # None = the system's certificate authorities.
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    server_name: str = ""  # TLS server name; "" = the host of the URL
    secrets: tuple[str, ...] = field(default=(), repr=False)
    # Whether requests contain a credential (any header but `_TENANTS`), which requires TLS.
    authorized: bool = False

    def __post_init__(self) -> None:
        remember(*self.secrets)

    def hidden_in(self, text: str) -> str:
        """Return the text with secrets redacted."""
        scrub = SecretScrubber(secret for secret in self.secrets if len(secret) >= _LEAST_SECRET)
        return redact_urls(scrub(text))


class _HttpPart(QuietRepr, Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the file, with the names of Prometheus."""


class _BasicAuth(_HttpPart, frozen=True):
    username: str | None = None
    username_file: str | None = None
    password: str | None = None
    password_file: str | None = None


class _Authorization(_HttpPart, frozen=True):
    type: str = "Bearer"
    credentials: str | None = None
    credentials_file: str | None = None


class _TlsPart(_HttpPart, frozen=True):
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str = ""
    insecure_skip_verify: bool = False


class _HttpFile(_HttpPart, frozen=True):
    basic_auth: _BasicAuth | None = None
    authorization: _Authorization | None = None
    bearer_token: str | None = None
    bearer_token_file: str | None = None
    tls_config: _TlsPart | None = None
    headers: dict[str, str] = _field(default_factory=dict[str, str])


def read(path: Path) -> HttpConfig:
    """Read the configuration from a YAML or JSON file; paths in it are relative to its folder.

    Raises:
        TelemetryError: It cannot be read, or has an unknown field. The message contains no value of the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise TelemetryError(
            f"cannot be read: {type(wrong).__name__}", location=str(path)
        ) from None
    problems: list[Problem] = []
    nodes: list[Node] = [
        node
        for piece in yaml_parser.pieces(text)
        for node in yaml_parser.read(piece, str(path), problems)
    ]
    if problems:
        raise TelemetryError(str(ManifestErrors(problems)))
    if len(nodes) > 1:
        raise TelemetryError("has more than one document", location=str(path))
    try:
        value = to_json(nodes[0]) if nodes else {}
        return _config(converted(value, _HttpFile, ""), path.parent)
    except ConfigError as error:
        hint = "see Prometheus' http_config; a string such as 123 or yes needs quotes"
        raise TelemetryError(error.message, location=str(path), hint=hint) from None


def _config(file: _HttpFile, folder: Path) -> HttpConfig:
    headers = {name: _printable(text, f"headers[{name!r}]") for name, text in file.headers.items()}
    if not all(map(_HEADER.fullmatch, headers)):
        raise ConfigError("headers should have names without characters that no header can carry")
    secrets = list(headers.values())
    ways = [name for name in _WAYS if getattr(file, name) is not None]
    ways += ["headers.Authorization" for name in headers if name.lower() == "authorization"]
    if len(ways) > 1:
        raise ConfigError(f"should be an object with only one of {ways[0]} and {ways[1]}")
    if ways and ways[0] in _WAYS:
        headers["Authorization"], credentials = _authorization(file, folder)
        secrets += credentials
    return HttpConfig(
        headers=headers,
        tls=None if file.tls_config is None else _tls(file.tls_config, folder),
        server_name="" if file.tls_config is None else file.tls_config.server_name,
        secrets=tuple(sorted(secrets, key=len, reverse=True)),
        authorized=any(name.lower() not in _TENANTS for name in headers),
    )


def _authorization(file: _HttpFile, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the value of the header, and the secrets in it."""
    if (basic := file.basic_auth) is not None:
        password = _value(basic, "password", folder)
        pair = f"{_value(basic, 'username', folder)}:{password}"
        encoded = base64.b64encode(pair.encode()).decode()
        return f"Basic {encoded}", (password, encoded)
    if file.authorization is not None:
        credentials = _value(file.authorization, "credentials", folder)
        return f"{file.authorization.type} {credentials}", (credentials,)
    token = _value(file, "bearer_token", folder)
    return f"Bearer {token}", (token,)


def _value(table: _HttpPart, name: str, folder: Path) -> str:
    """Return a text that is inline or in a file of its own."""
    text, file = getattr(table, name), getattr(table, f"{name}_file")
    if (text is None) is (file is None):
        raise ConfigError(f"should be an object with either {name} or {name}_file")
    if text is None:
        try:
            text = (folder / file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as wrong:
            words = f"{name}_file should be a file; it cannot be read: {type(wrong).__name__}"
            raise ConfigError(words) from None
    return _printable(text, name)


def _printable(text: str, place: str) -> str:
    if not text or not text.isprintable():
        raise ConfigError(
            f"{place} should be a text without line breaks and other characters that no header can carry"
        )
    return text


def _tls(tls: _TlsPart, folder: Path) -> ssl.SSLContext:
    if (tls.cert_file is None) is not (tls.key_file is None):
        raise ConfigError(
            "tls_config should have both cert_file and key_file: they belong together"
        )
    try:
        context = ssl.create_default_context(cafile=tls.ca_file and str(folder / tls.ca_file))
        if tls.cert_file is not None and tls.key_file is not None:
            context.load_cert_chain(folder / tls.cert_file, folder / tls.key_file)
    except (OSError, ssl.SSLError) as wrong:
        words = f"tls_config should have usable files: {type(wrong).__name__}"
        raise ConfigError(words) from None
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
