"""Client credentials against a token endpoint on loopback."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from reconciler.base.backoff import Backoff
from reconciler.base.secret import Secret
from reconciler.client.auth.oidc import OidcSettings, OidcTokens
from reconciler.client.auth.sasl import BearerToken, check_extensions
from reconciler.errors import AuthenticationError, ConfigError
from tests.client.support import on_loop
from tests.fakes.clock import FakeClock

PLANTED = "pl4nted+se/cret"


class Endpoint:
    """Sends configured responses; records its requests."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.requests.append((self.headers["Authorization"], parse_qs(form)))
                status, body = endpoint.answers.pop(0) if endpoint.answers else (200, token())
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/token"

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def token(value: str = "abc.def.ghi", **more: object) -> bytes:
    return json.dumps({"access_token": value, "expires_in": 100} | more).encode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    new_endpoint = Endpoint()
    yield new_endpoint
    new_endpoint.stop()


def source(endpoint: Endpoint, clock: FakeClock, **more: object) -> OidcTokens:
    settings = {
        "url": endpoint.url,
        "client_id": "our client",
        "client_secret": Secret(PLANTED),
        "retry": Backoff(first=1.0, cap=2.0),
    }
    return OidcTokens(OidcSettings(**(settings | more)), clock)


@on_loop
async def test_the_form_and_the_login_are_those_of_the_client_credentials_grant(
    endpoint: Endpoint,
) -> None:
    bearer_token = await source(endpoint, FakeClock(), scope="a b", extensions={"cluster": "x"})()
    assert bearer_token.value == Secret("abc.def.ghi")
    assert bearer_token.extensions == {"cluster": "x"}
    ((login, form),) = endpoint.requests
    assert base64.b64decode(login.removeprefix("Basic ")).decode() == f"our client:{PLANTED}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["a b"]}


@on_loop
async def test_id_and_secret_are_form_encoded_if_configured(endpoint: Endpoint) -> None:
    await source(endpoint, FakeClock(), urlencode=True)()
    login = base64.b64decode(endpoint.requests[0][0].removeprefix("Basic ")).decode()
    assert login == "our+client:pl4nted%2Bse%2Fcret"


@on_loop
async def test_a_token_is_reused_for_four_fifths_of_its_lifetime(endpoint: Endpoint) -> None:
    clock = FakeClock()
    tokens = source(endpoint, clock)
    await tokens()
    clock.advance(79)
    await tokens()
    assert len(endpoint.requests) == 1
    clock.advance(2)
    await tokens()
    assert len(endpoint.requests) == 2


def jwt(expires: float) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"e30.{payload}.x"


@on_loop
async def test_without_expires_in_the_expiry_is_read_from_the_token(endpoint: Endpoint) -> None:
    clock = FakeClock()
    endpoint.answers = [
        (200, token(jwt(clock.now() + 50), expires_in=None)),
        (200, token("opaque", expires_in=None)),
    ]
    tokens = source(endpoint, clock)
    assert (await tokens()).expires_at == clock.now() + 50
    clock.advance(41)
    assert (await tokens()).expires_at is None
    await tokens()
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    "claims",
    [
        "[" * 20_000,
        '{"exp": 1%s}' % ("0" * 400),
        '{"exp": "1e999"}',
        '{"exp": NaN}',
        "[]",
        "1",
        "{}",
    ],
)
@on_loop
async def test_a_token_with_an_invalid_expiry_is_fetched_for_every_connection(
    endpoint: Endpoint, claims: str
) -> None:
    payload = base64.urlsafe_b64encode(claims.encode()).decode().rstrip("=")
    endpoint.answers = [(200, token(f"e30.{payload}.x", expires_in=None))]
    assert (await source(endpoint, FakeClock())()).expires_at is None


@pytest.mark.parametrize("life", [1e300, 10**400, 10**12, "9" * 18])
@on_loop
async def test_no_token_is_reused_for_more_than_a_day(endpoint: Endpoint, life: object) -> None:
    clock = FakeClock()
    endpoint.answers = [(200, token(expires_in=life)), (200, token(jwt(1e300), expires_in=None))]
    tokens = source(endpoint, clock)
    assert (await tokens()).expires_at == clock.now() + 86_400
    clock.advance(86_400)
    assert (await tokens()).expires_at == clock.now() + 86_400
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b'{"error": "invalid_client"}', r"HTTP 401 \(invalid_client\)"),
        (
            400,
            b'{"error": "invalid_scope", "error_description": "no such\\nscope"}',
            r"HTTP 400 \(invalid_scope: no such scope\)",
        ),
        (403, b"<html>forbidden</html>", r"HTTP 403$"),
        (302, b"", "HTTP 302"),
        (200, b"<html>", "not JSON with an access_token"),
        (200, b"[]", "not JSON with an access_token"),
        (200, b'{"token": "x"}', "not JSON with an access_token"),
        (200, b'{"access_token": 5}', "is not a text"),
        (200, token("bad token"), "RFC 6750"),
        (200, b"x" * (1024 * 1024 + 1), "larger than 1,048,576 bytes"),
        (200, b'{"access_token": "x", "expires_in": NaN}', "not JSON with an access_token"),
        (200, b'{"access_token": "x", "expires_in": Infinity}', "not JSON with an access_token"),
        (200, token(expires_in=-1), "not a number of seconds"),
        (200, token(expires_in="1" * 5_000), "not a number of seconds"),
        (200, token(expires_in="\u00b2"), "not a number of seconds"),
        (200, token(expires_in=[1]), "not a number of seconds"),
        (200, token(expires_in=True), "not a number of seconds"),
        (200, b"[" * 100_000, "not JSON with an access_token"),
        (400, b'{"error":' * 100_000, "HTTP 400$"),
    ],
)
@on_loop
async def test_refusals_are_final_and_reported_briefly(
    endpoint: Endpoint, status: int, body: bytes, words: str
) -> None:
    endpoint.answers = [(status, body)]
    with pytest.raises(AuthenticationError, match=words):
        await source(endpoint, FakeClock())()
    assert len(endpoint.requests) == 1


@on_loop
async def test_a_secret_that_the_endpoint_repeats_is_not_in_the_error(endpoint: Endpoint) -> None:
    basic = base64.b64encode(f"our client:{PLANTED}".encode()).decode()
    words = json.dumps({"error": "x", "error_description": f"you sent {PLANTED} and {basic}"})
    endpoint.answers = [(401, words.encode())]
    with pytest.raises(AuthenticationError) as caught:
        await source(endpoint, FakeClock())()
    message = str(caught.value) + caught.value.hint + repr(caught.value)
    assert PLANTED not in message
    assert basic not in message
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://idp.example/token", "must be https"),
        ("ftp://idp.example/token", "is not an https URL"),
        ("idp.example", "is not an https URL"),
        ("https://a:b@idp.example/token", "must not hold credentials"),
    ],
)
def test_urls_that_would_expose_the_secret_are_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        OidcSettings(url=url, client_id="a", client_secret=Secret("b"))


@pytest.mark.parametrize("value", ["", "a b", "a\x01b", "é"])
def test_a_response_without_a_token_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BearerToken(value=Secret(value))
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize(
    "extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "x\x01y"}]
)
def test_the_syntax_of_extensions_is_checked(extensions: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="SASL extension"):
        check_extensions(extensions)


def test_no_repr_contains_a_secret(endpoint: Endpoint) -> None:
    tokens = source(endpoint, FakeClock())
    settings = tokens._settings
    assert PLANTED not in repr(tokens) + repr(settings) + repr(BearerToken(value=Secret("abc.def")))
    assert "abc.def" not in repr(BearerToken(value=Secret("abc.def")))
