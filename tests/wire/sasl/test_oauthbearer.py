import pytest

from reconciler.errors import AuthenticationError, EncodeError
from reconciler.wire.sasl.oauthbearer import OAuthBearerClient

TOKEN = "eyJhbGciOiJub25lIn0.e30."  # noqa: S105


def test_the_token_is_sent_with_its_extensions() -> None:
    client = OAuthBearerClient(token=TOKEN, extensions={"logicalCluster": "lkc-1", "pool": "a b"})
    assert client.start() == (
        f"n,,\x01auth=Bearer {TOKEN}\x01logicalCluster=lkc-1\x01pool=a b\x01\x01".encode()
    )
    assert client.receive(b"") is None
    assert repr(client) == "OAuthBearer(...)"


def test_extensions_are_optional() -> None:
    assert OAuthBearerClient(token="a").start() == b"n,,\x01auth=Bearer a\x01\x01"  # noqa: S106


@pytest.mark.parametrize("token", ["", "x y", "x\x01y", "é", "=x"])
def test_a_token_that_is_invalid_in_a_header_is_refused(token: str) -> None:
    with pytest.raises(EncodeError, match="bearer token") as caught:
        OAuthBearerClient(token=token)
    assert not token or token not in caught.value.message


@pytest.mark.parametrize(
    ("key", "value"), [("auth", "x"), ("a1", "x"), ("", "x"), ("a", ""), ("a", "\x01"), ("a", "é")]
)
def test_an_extension_that_breaks_the_syntax_is_refused(key: str, value: str) -> None:
    with pytest.raises(EncodeError, match="extension"):
        OAuthBearerClient(token=TOKEN, extensions={key: value})


def test_an_error_of_the_server_is_acknowledged_and_reported() -> None:
    client = OAuthBearerClient(token=TOKEN)
    assert client.receive(b'{"status":"invalid_token","scope":"s"}') == b"\x01"
    assert client.server_error == "invalid_token"
    with pytest.raises(AuthenticationError, match="refused the token: invalid_token"):
        client.receive(b"")


@pytest.mark.parametrize(
    "challenge", [b"not json", b"[]", b"{}", b'{"status":1}', b'{"status":""}', b"\xff"]
)
def test_a_malformed_error_of_the_server_is_reported_as_an_error(challenge: bytes) -> None:
    client = OAuthBearerClient(token=TOKEN)
    assert client.receive(challenge) == b"\x01"
    assert client.server_error == "no reason given"


def test_an_error_of_the_server_is_shortened_and_made_printable() -> None:
    client = OAuthBearerClient(token=TOKEN)
    client.receive(b'{"status":"a\\u001b\\n\xc3\xa9' + b"x" * 500 + b'"}')
    assert client.server_error == "a???" + "x" * 96
