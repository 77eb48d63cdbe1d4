"""Tests of tokens, which the key of the JWKS file verifies, and of the OAuth endpoint."""

import base64
import json
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from tests.servers.tokens import AUDIENCE, ISSUER, Issuer

GRANT = {"grant_type": "client_credentials", "scope": "quotas"}


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    running = Issuer.start(tmp_path, {"alice": "s ecret"})
    yield running
    running.stop()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def verify(token: str, jwks: Path) -> dict[str, object]:
    """Verify an ES256 token with the key of the file, independently of the issuer's code."""
    (key,) = json.loads(jwks.read_text())["keys"]
    x, y = (int.from_bytes(decode(key[name]), "big") for name in ("x", "y"))
    head, claims, signature = token.split(".")
    assert json.loads(decode(head))["kid"] == key["kid"]
    raw = decode(signature)
    pair = encode_dss_signature(*(int.from_bytes(raw[at : at + 32], "big") for at in (0, 32)))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    public.verify(pair, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
    return json.loads(decode(claims))


def post(issuer: Issuer, form: dict[str, str], **headers: str) -> tuple[int, dict[str, object]]:
    connection = HTTPConnection(urlsplit(issuer.url).netloc, timeout=60)
    content = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/token", urlencode(form), content | headers)
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    return answer.status, document


def basic(client: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()


def test_a_minted_token_verifies_against_the_published_key(issuer: Issuer) -> None:
    claims = verify(issuer.mint("alice"), issuer.rules.jwks)
    assert (claims["sub"], claims["iss"], claims["aud"]) == ("alice", ISSUER, AUDIENCE)
    assert claims["exp"] > claims["iat"]


def test_a_forged_token_does_not_verify(issuer: Issuer) -> None:
    forged = issuer.mint("alice", key=ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(InvalidSignature):
        verify(forged, issuer.rules.jwks)


def test_an_expired_token_was_valid_before(issuer: Issuer) -> None:
    claims = verify(issuer.mint("alice", lifetime_seconds=-60), issuer.rules.jwks)
    fresh = verify(issuer.mint("alice"), issuer.rules.jwks)
    assert claims["iat"] < claims["exp"] < fresh["iat"]


@pytest.mark.parametrize("secret", ["s ecret", "s+ecret", "s%20ecret"])
def test_the_endpoint_accepts_basic_authorization_raw_or_encoded(
    issuer: Issuer, secret: str
) -> None:
    status, document = post(issuer, GRANT, Authorization=basic("alice", secret))
    assert status == HTTPStatus.OK
    assert verify(str(document["access_token"]), issuer.rules.jwks)["sub"] == "alice"
    assert document["expires_in"] == 3600
    assert issuer.behaviour.scopes == ["quotas"]


def test_the_endpoint_accepts_credentials_in_the_form(issuer: Issuer) -> None:
    form = GRANT | {"client_id": "alice", "client_secret": "s ecret"}
    assert post(issuer, form)[0] == HTTPStatus.OK


@pytest.mark.parametrize(
    ("client", "secret"), [("alice", "wrong"), ("mallory", "s ecret"), ("", "")]
)
def test_wrong_credentials_are_refused(issuer: Issuer, client: str, secret: str) -> None:
    answer = post(issuer, GRANT, Authorization=basic(client, secret))
    assert answer == (HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"})


def test_an_authorization_that_is_not_base64_is_refused(issuer: Issuer) -> None:
    assert post(issuer, GRANT, Authorization="Basic !")[0] == HTTPStatus.UNAUTHORIZED


def test_another_grant_is_refused(issuer: Issuer) -> None:
    answer = post(issuer, {"grant_type": "password"}, Authorization=basic("alice", "s ecret"))
    assert answer == (HTTPStatus.BAD_REQUEST, {"error": "unsupported_grant_type"})


def test_the_endpoint_fails_on_request(issuer: Issuer) -> None:
    right = {"Authorization": basic("alice", "s ecret")}
    issuer.behaviour.status = HTTPStatus.SERVICE_UNAVAILABLE
    assert post(issuer, GRANT, **right)[0] == HTTPStatus.SERVICE_UNAVAILABLE
    issuer.behaviour.status = HTTPStatus.OK
    issuer.behaviour.body = b'{"no": "token"}'
    assert post(issuer, GRANT, **right) == (HTTPStatus.OK, {"no": "token"})


def test_java_clients_get_the_address_of_the_token_endpoint(issuer: Issuer) -> None:
    properties = issuer.client_properties("alice")
    assert properties["sasl.oauthbearer.token.endpoint.url"] == issuer.url
    assert 'clientSecret="s ecret"' in properties["sasl.jaas.config"]
