"""Reads Prometheus' `http_config` (authorization, TLS, headers) from a file; secrets are redacted from all output."""

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from reconciler.base.redaction import SecretScrubber, redact_urls, remember
from reconciler.errors import ManifestErrors, Problem, TelemetryError
from reconciler.manifest.syntax import yaml_parser
from reconciler.manifest.syntax.nodes import Node, to_json

_TOP: Final = (
    "basic_auth",
    "authorization",
    "bearer_token",
    "bearer_token_file",
    "tls_config",
    "headers",
    "proxy_url",
)
_BASIC: Final = ("username", "username_file", "password", "password_file")
_AUTHORIZATION: Final = ("type", "credentials", "credentials_file")
_TLS: Final = ("ca_file", "cert_file", "key_file", "server_name", "insecure_skip_verify")
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
    proxy: str = field(default="", repr=False)  # proxy URL; "" = as set in the environment
    secrets: tuple[str, ...] = field(default=(), repr=False)
    # Whether requests contain a credential (any header but `_TENANTS`), which requires TLS.
    authorized: bool = False

    def __post_init__(self) -> None:
        remember(*self.secrets)

    def hidden_in(self, text: str) -> str:
        """Return the text with secrets redacted."""
        scrub = SecretScrubber(secret for secret in self.secrets if len(secret) >= _LEAST_SECRET)
        return redact_urls(scrub(text))


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
    return _ConfigReader(path).config(to_json(nodes[0]) if nodes else {})


class _ConfigReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._secrets: list[str] = []

    def wrong(self, message: str) -> TelemetryError:
        return TelemetryError(message, location=str(self._path), hint="see Prometheus' http_config")

    def config(self, value: object) -> HttpConfig:
        top = self._table(value, _TOP, "the file")
        headers = {
            name: self._text(header_value, f"headers.{name}")
            for name, header_value in self._table(top.get("headers", {}), None, "headers").items()
        }
        for name, header_value in headers.items():
            if not _HEADER.fullmatch(name) or not header_value.isprintable():
                raise self.wrong(f"headers: {name!r} has a character that no header can carry")
        self._secrets.extend(headers.values())
        ways = [
            method_name
            for method_name in ("basic_auth", "authorization", "bearer_token", "bearer_token_file")
            if method_name in top
        ]
        if len(ways) > 1:
            raise self.wrong(f"{ways[0]} and {ways[1]} exclude each other")
        if ways and any(name.lower() == "authorization" for name in headers):
            raise self.wrong(f"{ways[0]} and headers.Authorization exclude each other")
        if ways:
            headers["Authorization"] = self._authorization(top, ways[0])
        tls = self._table(top.get("tls_config", {}), _TLS, "tls_config")
        return HttpConfig(
            headers=headers,
            tls=self._tls(tls) if tls else None,
            server_name=self._optional(tls, "server_name"),
            proxy=self._optional(top, "proxy_url"),
            secrets=tuple(sorted(self._secrets, key=len, reverse=True)),
            authorized=any(name.lower() not in _TENANTS for name in headers),
        )

    def _authorization(self, top: Mapping[str, Any], way: str) -> str:
        if way == "basic_auth":
            basic = self._table(top[way], _BASIC, way)
            pair = f"{self._value(basic, 'username', way)}:{self._value(basic, 'password', way)}"
            encoded = base64.b64encode(pair.encode()).decode()
            self._secrets.append(encoded)
            return f"Basic {encoded}"
        if way == "authorization":
            authorization_table = self._table(top[way], _AUTHORIZATION, way)
            kind = self._optional(authorization_table, "type") or "Bearer"
            return f"{kind} {self._value(authorization_table, 'credentials', way)}"
        return f"Bearer {self._value(top, 'bearer_token', 'the file')}"

    def _value(self, table: Mapping[str, Any], name: str, description: str) -> str:
        """Return a value that is inline or in a file of its own."""
        file = self._optional(table, f"{name}_file")
        if name in table and file:
            raise self.wrong(f"{description}: {name} and {name}_file exclude each other")
        if file:
            try:
                file_value = (self._path.parent / file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as wrong:
                raise self.wrong(
                    f"{description}: {name}_file cannot be read: {type(wrong).__name__}"
                ) from None
        elif name in table:
            file_value = self._text(table[name], f"{description}.{name}")
        else:
            raise self.wrong(f"{description} has neither {name} nor {name}_file")
        if not file_value.isprintable():
            raise self.wrong(
                f"{description}: {name} has a line break or another character that no header can carry"
            )
        if name != "username":
            self._secrets.append(file_value)
        return file_value

    def _tls(self, tls: Mapping[str, Any]) -> ssl.SSLContext:
        skip = tls.get("insecure_skip_verify", False)
        if not isinstance(skip, bool):
            raise self.wrong("tls_config.insecure_skip_verify is true or false")
        ca, cert, key = (self._optional(tls, name) for name in ("ca_file", "cert_file", "key_file"))
        if bool(cert) is not bool(key):
            raise self.wrong("tls_config: cert_file and key_file belong together")
        config_folder = self._path.parent
        try:
            context = ssl.create_default_context(cafile=str(config_folder / ca) if ca else None)
            if cert:
                context.load_cert_chain(str(config_folder / cert), str(config_folder / key))
        except (OSError, ssl.SSLError) as wrong:
            raise self.wrong(f"tls_config: a file cannot be used: {type(wrong).__name__}") from None
        if skip:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _optional(self, table: Mapping[str, Any], name: str) -> str:
        return self._text(table[name], name) if name in table else ""

    def _text(self, value: object, description: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{description} must be a text; put it in quotes")
        return value

    def _table(
        self, value: object, known_words: tuple[str, ...] | None, description: str
    ) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(f"{description} is not a mapping")
        unknown = sorted(set(value) - set(known_words)) if known_words is not None else []
        if unknown:
            raise self.wrong(
                f"{description} has {unknown[0]!r}; known: {', '.join(known_words or ())}"
            )
        return value
