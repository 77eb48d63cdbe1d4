"""Bearer tokens for the OAUTHBEARER listener: an issuer with a key, a JWKS file and a token endpoint.

The broker checks the signature with the JWKS file, and issuer, audience and times. The endpoint implements
OAuth's client credentials grant (RFC 6749 §4.4) on loopback; tests can make it refuse or fail.
"""

import base64
import binascii
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.servers.certs import wall_clock
from tests.servers.properties import OAUTH, TokenRules

ISSUER, AUDIENCE, KEY_ID = "https://issuer.example", "kafka", "test-key"
LIFETIME_SECONDS = 3600


def encode(raw: bytes) -> str:
    """Encode as base64url without padding, as in JOSE."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def sign(key: ec.EllipticCurvePrivateKey, claims: Mapping[str, object]) -> str:
    """Return a compact ES256 token of `claims` (RFC 7515, RFC 7518 §3.4)."""
    header = {"alg": "ES256", "typ": "JWT", "kid": KEY_ID}
    text = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


@dataclass(slots=True, kw_only=True)
class Behaviour:
    """Behaviour of the token endpoint; a test may change it at any time.

    `secrets` maps client ids to secrets; a `status` other than 200 returns an OAuth error;
    `lifetime_seconds` is that of new tokens; `body` replaces the JSON response.
    """

    secrets: Mapping[str, str]
    status: HTTPStatus = HTTPStatus.OK
    lifetime_seconds: int = LIFETIME_SECONDS
    body: bytes | None = None
    scopes: list[str] = field(default_factory=list)  # of every request so far


class Issuer:
    """A token issuer with a running endpoint; call `stop` at the end."""

    def __init__(self, folder: Path, secrets: Mapping[str, str]) -> None:
        """Write `jwks.json` to `folder`, and listen on a free loopback port."""
        folder.mkdir(parents=True, exist_ok=True)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.behaviour = Behaviour(secrets=secrets)
        self.rules = TokenRules(jwks=folder / "jwks.json", issuer=ISSUER, audience=AUDIENCE)
        self.rules.jwks.write_text(json.dumps({"keys": [self._public()]}), encoding="utf-8")
        issuer = self

        class Endpoint(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                status, body = issuer.answer(
                    self.headers.get("Authorization", ""),
                    self.rfile.read(int(self.headers.get("Content-Length", "0"))),
                )
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    @classmethod
    def start(cls, folder: Path, secrets: Mapping[str, str]) -> Self:
        """Start an issuer; `secrets` maps client ids to secrets."""
        return cls(folder, secrets)

    @property
    def url(self) -> str:
        """URL of the token endpoint."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def stop(self) -> None:
        """Stop the endpoint."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def mint(
        self,
        subject: str,
        *,
        lifetime_seconds: int = LIFETIME_SECONDS,
        audience: str = AUDIENCE,
        issuer: str = ISSUER,
        key: ec.EllipticCurvePrivateKey | None = None,
    ) -> str:
        """Return a token for `subject`; expired with a negative lifetime, forged with another `key`."""
        now = int(wall_clock().timestamp())
        claims = {
            "sub": subject,
            "iss": issuer,
            "aud": audience,
            "iat": now + min(0, lifetime_seconds) - 1,
            "exp": now + lifetime_seconds,
            "scope": "quotas",
        }
        return sign(key or self.key, claims)

    def client_properties(self, client_id: str) -> dict[str, str]:
        """Return Java properties of a client that fetches tokens from the endpoint."""
        secret = self.behaviour.secrets[client_id]
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": (
                f"{OAUTH}.OAuthBearerLoginModule required "
                f'clientId="{client_id}" clientSecret="{secret}";'
            ),
        }

    def jvm_flags(self) -> tuple[str, ...]:
        """Return the JVM flags that allow 4.x to read keys and tokens from these URLs and files."""
        prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        return (
            f"{prefix}.urls={self.rules.jwks.as_uri()},{self.url}",
            f"{prefix}.files={self.rules.jwks}",
        )

    def answer(self, authorization: str, form: bytes) -> tuple[HTTPStatus, bytes]:
        """Return status and JSON of the endpoint's response to a request."""
        fields = {name: values[0] for name, values in parse_qs(form.decode()).items()}
        self.behaviour.scopes.append(fields.get("scope", ""))
        client, secret = _basic(authorization) or (
            fields.get("client_id", ""),
            fields.get("client_secret", ""),
        )
        if self.behaviour.status is not HTTPStatus.OK:
            return self.behaviour.status, b'{"error": "temporarily_unavailable"}'
        if fields.get("grant_type") != "client_credentials":
            return HTTPStatus.BAD_REQUEST, b'{"error": "unsupported_grant_type"}'
        if not client or self.behaviour.secrets.get(client) != secret:
            return HTTPStatus.UNAUTHORIZED, b'{"error": "invalid_client"}'
        if self.behaviour.body is not None:
            return HTTPStatus.OK, self.behaviour.body
        lifetime = self.behaviour.lifetime_seconds
        token = self.mint(client, lifetime_seconds=lifetime)
        granted = {"access_token": token, "token_type": "Bearer", "expires_in": lifetime}
        return HTTPStatus.OK, json.dumps(granted).encode()

    def _public(self) -> dict[str, str]:
        point = self.key.public_key().public_numbers()
        return {
            "kty": "EC",
            "crv": "P-256",
            "alg": "ES256",
            "use": "sig",
            "kid": KEY_ID,
            "x": encode(point.x.to_bytes(32, "big")),
            "y": encode(point.y.to_bytes(32, "big")),
        }


def _basic(authorization: str) -> tuple[str, str] | None:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        client, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return unquote_plus(client), unquote_plus(secret)
