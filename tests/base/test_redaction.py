"""No secret of a URL reaches output, in any part of the URL; no peer can repeat a secret that it received."""

import base64
import html
import json
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.redaction import PIECE, SCRUBBED, SecretScrubber, redact_url, redact_urls

SECRET = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=4, max_size=24
).filter(lambda text: text not in "https://(hidden)@host.example:9090/path")
PLACES = (
    "https://u:{}@host.example/path",
    "https://{}@host.example/path",
    "//u:{}@host.example/path",
    "u:{}@host.example:9090",
    "user.name:{}@host.example/path",
    "socks5://u:{}@host.example:1080",
    "https://host.example/path?token={}",
    "https://host.example/path?a=b&X-Amz-Signature={}",
    "https://host.example/path#token={}",
    "https://host.example/path;sig={}",
    "/container/blob?sig={}",
)


@given(st.sampled_from(PLACES), SECRET)
def test_no_secret_of_a_url_is_shown_for_any_characters(place: str, secret: str) -> None:
    assert secret not in redact_url(place.format(secret))
    assert secret not in redact_urls(f"cannot reach '{place.format(secret)}': refused")


@given(SECRET, SECRET, st.sampled_from("@/?#:;&=\\"))
def test_both_parts_of_a_password_that_contains_a_url_delimiter_are_hidden(
    remaining_text: str, right: str, sign: str
) -> None:
    url = redact_url(f"https://user:{remaining_text}{sign}{right}@prom")
    assert remaining_text not in url
    assert right not in url


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://u:p@S3c2@prom", "https://(hidden)@prom"),
        ("https://u:p/S3c3@prom/x", "https://(hidden)"),
        ("u:p/S3c3@prom", "(hidden)"),
        ("u:S3c@prom:9090", "(hidden)@prom:9090"),
        ("https://prom/#token=S3c", "https://prom/#(hidden)"),
        ("https://prom/a;sig=S3c", "https://prom/a;(hidden)"),
        ("https://prom/a?X-Amz-Signature=S3c", "https://prom/a?(hidden)"),
        ("https%3A%2F%2Fu%3AS3c%40prom", "(hidden)"),
        ("https:\\\\u:S3c@prom", "https:\\\\(hidden)@prom"),
        ("https://prom:9090/api", "https://prom:9090/api"),
        ("git@host:team/quotas.git", "git@host:team/quotas.git"),
        ("SASL_SSL://a:9092,SASL_SSL://b:9092", "SASL_SSL://a:9092,SASL_SSL://b:9092"),
        ("quotas/team@home", "quotas/team@home"),
        ("what next? nothing", "what next? nothing"),
    ],
)
def test_a_url_shows_host_and_path_where_they_are_unambiguous(url: str, text: str) -> None:
    assert redact_url(url) == text


@given(SECRET, st.sampled_from(["evil.example", "evil.example:443"]))
def test_the_host_that_is_shown_is_the_host_that_is_dialed(path: str, host: str) -> None:
    """``https://evil.example/@prom`` must not read as if ``prom`` was the host."""
    url = f"https://{host}/{path}@prom.example"
    try:
        dialed = urlsplit(url).hostname or ""
    except ValueError:
        return
    assert dialed != "prom.example"
    assert "prom.example" not in redact_url(url)


def spellings(secret: str) -> dict[str, str]:
    content = f"\0alice\0{secret}".encode()
    return {
        "raw": secret,
        "quoted": quote(secret, safe=""),
        "plus": quote_plus(secret),
        "json": json.dumps(secret),
        "repr": repr(secret),
        "html": html.escape(secret),
        "hex": secret.encode().hex(),
        "base64": base64.b64encode(secret.encode()).decode(),
        "urlsafe": base64.urlsafe_b64encode(secret.encode()).decode(),
        "token": base64.b64encode(content).decode(),
        "shifted": base64.b64encode(b"x" + content).decode(),
        "shifted twice": base64.b64encode(b"xy" + content).decode(),
        "cut": secret[: max(PIECE, len(secret) // 2)],
        "cut in front": secret[-max(PIECE, len(secret) // 2) :],
    }


# Ten or more different characters, so that no piece of eight is also a word of the sentence around it.
STRONG = st.text(st.characters(exclude_categories=("Cs",)), min_size=12, max_size=40).filter(
    lambda text: not any(text[at : at + 4] in SENTENCE for at in range(len(text) - 3))
)
SENTENCE = "Invalid credentials: '{}' (of alice); try again <hidden>"


@given(STRONG, st.sampled_from(sorted(spellings("x" * 12))))
def test_a_secret_is_removed_from_peer_messages_in_every_usual_encoding(
    secret: str, name: str
) -> None:
    spelling = spellings(secret)[name]
    text = SecretScrubber([secret])(SENTENCE.format(spelling))
    assert "<hidden>" in text.replace(" <hidden>", "", 1)
    assert secret not in text
    before_the_secret = 12 if name in {"token", "shifted", "shifted twice"} else 0
    for at in range(before_the_secret, len(spelling) - 11):
        # In base64 up to three letters at both ends depend on the adjacent bytes, too.
        assert spelling[at : at + 12] not in text


def test_a_short_secret_hides_the_whole_text_and_an_absent_one_hides_nothing() -> None:
    assert SecretScrubber(["abc"])("it was abc") == "<hidden>"
    assert SecretScrubber(["abc"])("it was ab") == "it was ab"


def test_the_user_name_in_the_plain_token_is_not_hidden() -> None:
    scrub = SecretScrubber(["pl4nted-pw"], complete=["\0quota-planner\0pl4nted-pw"])
    assert scrub("User quota-planner is unknown") == "User quota-planner is unknown"
    assert "quota-planner" not in scrub("got \0quota-planner\0pl4nted-pw")
    assert repr(scrub) == "Scrubber(...)"


@pytest.mark.parametrize(
    "text", ["A" * 200_000, '"' * 200_000 + "\x00", "#" * 200_000, "a." * 100_000]
)
def test_long_text_is_redacted_in_linear_time(text: str) -> None:
    begin = time.process_time()
    _ = redact_urls(text)
    assert time.process_time() - begin < 2


def percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def python_bytes(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def octal(text: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in text.encode())


def json_units(text: str) -> str:
    return "".join(f"\\u{unit}" for unit in text.encode("utf-16-be").hex(" ", 2).split())


def html_decimal(text: str) -> str:
    return "".join(f"&#{ord(character)};" for character in text)


def html_hex(text: str) -> str:
    return "".join(f"&#x{ord(character):X};" for character in text)


ESCAPES = [str, percent, python_bytes, octal, json_units, html_decimal, html_hex]


@given(STRONG, st.lists(st.sampled_from(ESCAPES), min_size=8), st.sampled_from(ESCAPES))
def test_a_secret_with_any_of_its_characters_escaped_in_any_way_is_removed(
    secret: str, escapes: list[Callable[[str], str]], outer: Callable[[str], str]
) -> None:
    echoed = "".join(escapes[at % len(escapes)](character) for at, character in enumerate(secret))
    message = SecretScrubber([secret])(f"wrong: {outer(echoed)} !")
    assert message == f"wrong: {SCRUBBED} !"


def test_text_whose_escapes_are_nested_too_deep_is_hidden() -> None:
    nested = "ordinary"
    for _ in range(9):
        nested = nested.replace("%", "%25").replace("o", "%6F")
    assert SecretScrubber(["a secret"])(nested) == SCRUBBED
    assert SecretScrubber(["a secret"])("%6Frdinary, \\u0070lain") == "%6Frdinary, \\u0070lain"
