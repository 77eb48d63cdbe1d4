import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.client import ClientConfig
from reconciler.client.auth import jaas
from reconciler.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    return {name: value.reveal() for name, value in jaas.parse(text).options.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f'{PLAIN} required username="alice" password="s3cret";',
            {"username": "alice", "password": "s3cret"},
        ),
        (
            f"{PLAIN} required username='al ice' password='a;b';",
            {"username": "al ice", "password": "a;b"},
        ),
        (
            f"{PLAIN} REQUIRED username=alice password=p-1_x$.y ;",
            {"username": "alice", "password": "p-1_x$.y"},
        ),
        (f'{PLAIN} required p="a\\"b\\\\c\\n\\t\\101";', {"p": 'a"b\\c\n\tA'}),
        (
            f'{PLAIN} required\n  // a comment\n  a="1" /* more\n */ b="2"\n;\n',
            {"a": "1", "b": "2"},
        ),
        (f'{PLAIN} required p="// no comment /* here";', {"p": "// no comment /* here"}),
        (f"{PLAIN} optional;", {}),
        (f'{PLAIN} required p="";', {"p": ""}),
        (f'{PLAIN} required a="1" a="2";', {"a": "2"}),
    ],
)
def test_options_are_parsed_as_java_parses_them(text: str, expected: dict[str, str]) -> None:
    assert options(text) == expected
    assert jaas.parse(text).name == PLAIN
    assert jaas.parse(text).short_name == "PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a login module class is expected"),
        (PLAIN, "a flag such as required is expected"),
        (f"{PLAIN} username=x;", "needs a flag"),
        (f"{PLAIN} required", "must end with a semicolon"),
        (f'{PLAIN} required username="x"', "must end with a semicolon"),
        (f"{PLAIN} required username;", "username has no value"),
        (f"{PLAIN} required username=;", "username must be quoted"),
        (f"{PLAIN} required password=1234;", "password must be quoted"),
        (f'{PLAIN} required password="pl4nted;', "a quote is opened"),
        (f'{PLAIN} required password="pl4nted\nmore";', "a quote is opened"),
        (f"{PLAIN} required; {PLAIN} required;", "more than one login module"),
        (f"{PLAIN} required = 5;", "an option is expected"),
    ],
)
def test_entries_that_kafka_refuses_are_refused_without_showing_values(
    text: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        jaas.parse(text, location="client.properties:7")
    assert caught.value.key == "sasl.jaas.config"
    assert str(caught.value).startswith("client.properties:7: sasl.jaas.config")
    assert "pl4nted" not in str(caught.value)


def test_values_are_not_in_the_repr() -> None:
    assert "s3cret" not in repr(jaas.parse(f'{PLAIN} required password="s3cret";'))


PASSWORD = st.text(
    st.sampled_from("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789 \t\"'=;\\/#*-_.$€"),
    min_size=4,
    max_size=30,
)
MALFORMED = (
    "{module} required username=alice password={};",
    "{module} required username=alice password={}",
    '{module} required username="alice" password="{};',
    '{module} required username="alice" password={}";',
    "{module} required {};",
    "{module} required password {};",
    "{module} {} required;",
    "{} {module} required;",
    "{}",
    '{module} required username="alice" password="x" {}="y";',
    "{module} required username=alice password='{}' {};",
)


@given(st.sampled_from(MALFORMED), PASSWORD)
def test_an_error_about_a_malformed_entry_contains_no_part_of_a_password(
    entry: str, password: str
) -> None:
    settings = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": entry.replace("{module}", PLAIN).replace("{}", password),
    }
    try:
        _ = ClientConfig.from_mapping(settings)
    except ConfigError as error:
        error_text = f"{error} {error.hint}"
        own = f"{shown_for_a_password_of_blanks(entry)} {' '.join(jaas.OPTIONS)} required"
        for at in range(len(password) - 3):
            piece = password[at : at + 4]
            assert piece not in error_text or piece in own


def shown_for_a_password_of_blanks(entry: str) -> str:
    """All sentences of the parser, because their words do not count as pieces of a secret."""
    texts: list[str] = []
    for text in ("", "é", "é é", "= é", '"', "é=1", "required;", "x required; y", f"{PLAIN} x"):
        try:
            _ = jaas.parse(entry.replace("{module}", PLAIN).replace("{}", text))
        except ConfigError as error:
            texts += [str(error), error.hint]
    return " ".join(texts)


def test_an_error_does_not_name_a_part_of_a_password_after_a_blank_as_an_option() -> None:
    with pytest.raises(ConfigError) as caught:
        jaas.parse(f"{PLAIN} required username=alice password=correct horse-S3cr3tFrag;")
    assert str(caught.value).startswith("sasl.jaas.config: option 3 has no value")


def test_a_comment_without_an_end_is_an_error() -> None:
    with pytest.raises(ConfigError, match="comment is opened and not closed"):
        jaas.parse(f"{PLAIN} required;" + "/*\n" * 100_000)
