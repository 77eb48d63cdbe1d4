import pytest

from reconciler.errors import AuthenticationError, EncodeError
from reconciler.wire.sasl.plain import PlainClient, read_plain


@pytest.mark.parametrize(
    ("user", "password"), [("", "p"), ("u", ""), ("u\x00", "p"), ("u", "\x00")]
)
def test_names_and_passwords_that_plain_cannot_encode_are_refused(user: str, password: str) -> None:
    with pytest.raises(EncodeError):
        PlainClient(user=user, password=password)


def test_a_challenge_in_plain_is_refused() -> None:
    with pytest.raises(AuthenticationError):
        PlainClient(user="u", password="p").receive(b"x")  # noqa: S106


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"u\x00p", "got 2"),
        (b"\x00u\x00p\x00", "got 4"),
        (b"\x00\x00p", "username not specified"),
        (b"\x00u\x00", "password not specified"),
        (b"other\x00u\x00p", "different from username"),
        (b"\x00\xff\x00p", "not UTF-8"),
    ],
)
def test_a_malformed_token_is_refused_with_the_message_of_kafka(token: bytes, words: str) -> None:
    with pytest.raises(AuthenticationError, match=words):
        read_plain(token)


def test_an_authorization_id_equal_to_the_user_is_accepted() -> None:
    assert read_plain(b"u\x00u\x00p") == ("u", "p")
