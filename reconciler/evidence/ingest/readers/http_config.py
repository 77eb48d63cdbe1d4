"""Reads Prometheus' `http_config` (authorization, TLS, headers) from a file; secrets are redacted from all output."""

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from reconciler.base.redaction import SecretScrubber, redact_urls, remember
from reconciler.codecs.reader import DocumentReader
from reconciler.errors import ConfigError, ManifestErrors, Problem, TelemetryError
from reconciler.manifest.syntax import yaml_parser
from reconciler.manifest.syntax.nodes import Node, to_json

_WAYS: Final = ("basic_auth", "authorization", "bearer_token", "bearer_token_file")
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
    try:
        return _config(DocumentReader(to_json(nodes[0]) if nodes else {}), path.parent)
    except ConfigError as error:
        hint = "see Prometheus' http_config; a string such as 123 or yes needs quotes"
        raise TelemetryError(error.message, location=str(path), hint=hint) from None


def _config(top: DocumentReader, folder: Path) -> HttpConfig:
    fields = top.fields(optional=(*_WAYS, "tls_config", "headers"))
    tls = fields["tls_config"].fields(optional=_TLS) if "tls_config" in fields else {}
    headers: dict[str, str] = {}
    for name, value in fields["headers"].pairs() if "headers" in fields else ():
        headers[name] = _printable(value, value.text())
        if not _HEADER.fullmatch(name):
            value.fail("under a name without characters that no header can carry")
    secrets = list(headers.values())
    ways: list[str] = [name for name in _WAYS if name in fields]
    if any(name.lower() == "authorization" for name in headers):
        ways.append("headers.Authorization")
    if len(ways) > 1:
        top.fail(f"an object with only one of {ways[0]} and {ways[1]}")
    if ways and ways[0] in fields:
        headers["Authorization"], credentials = _authorization(top, ways[0], folder)
        secrets += credentials
    return HttpConfig(
        headers=headers,
        tls=_tls(fields["tls_config"], tls, folder) if tls else None,
        server_name=tls["server_name"].text() if "server_name" in tls else "",
        secrets=tuple(sorted(secrets, key=len, reverse=True)),
        authorized=any(name.lower() not in _TENANTS for name in headers),
    )


def _authorization(top: DocumentReader, way: str, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the value of the header, and the secrets in it."""
    if way == "basic_auth":
        basic = top[way]
        _ = basic.fields(optional=("username", "username_file", "password", "password_file"))
        password = _value(basic, "password", folder)
        pair = f"{_value(basic, 'username', folder)}:{password}"
        encoded = base64.b64encode(pair.encode()).decode()
        return f"Basic {encoded}", (password, encoded)
    if way == "authorization":
        fields = top[way].fields(optional=("type", "credentials", "credentials_file"))
        kind = fields["type"].text() if "type" in fields else "Bearer"
        credentials = _value(top[way], "credentials", folder)
        return f"{kind} {credentials}", (credentials,)
    token = _value(top, "bearer_token", folder)
    return f"Bearer {token}", (token,)


def _value(table: DocumentReader, name: str, folder: Path) -> str:
    """Return a text that is inline or in a file of its own."""
    in_file = f"{name}_file"
    if (name in table) is (in_file in table):
        table.fail(f"an object with either {name} or {in_file}")
    if name in table:
        return _printable(table[name], table[name].text())
    try:
        text = (folder / table[in_file].text()).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        table[in_file].fail(f"a file; it cannot be read: {type(wrong).__name__}")
    return _printable(table[in_file], text)


def _printable(place: DocumentReader, text: str) -> str:
    if not text or not text.isprintable():
        place.fail("a text without line breaks and other characters that no header can carry")
    return text


def _tls(place: DocumentReader, tls: Mapping[str, DocumentReader], folder: Path) -> ssl.SSLContext:
    if ("cert_file" in tls) is not ("key_file" in tls):
        place.fail("an object with both cert_file and key_file, which belong together")
    paths = {
        name: str(folder / tls[name].text())
        for name in ("ca_file", "cert_file", "key_file")
        if name in tls
    }
    try:
        context = ssl.create_default_context(cafile=paths.get("ca_file"))
        if "cert_file" in paths:
            context.load_cert_chain(paths["cert_file"], paths["key_file"])
    except (OSError, ssl.SSLError) as wrong:
        place.fail(f"an object with usable files: {type(wrong).__name__}")
    if "insecure_skip_verify" in tls and tls["insecure_skip_verify"].boolean():
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
