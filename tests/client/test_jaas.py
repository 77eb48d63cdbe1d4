import pytest

from reconciler.client import jaas
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
def test_options_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
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
        (f"{PLAIN} required username=;", "username must stand in quotes"),
        (f"{PLAIN} required password=1234;", "password must stand in quotes"),
        (f'{PLAIN} required password="pl4nted;', "a quote is opened"),
        (f'{PLAIN} required password="pl4nted\nmore";', "a quote is opened"),
        (f"{PLAIN} required; {PLAIN} required;", "more than one login module"),
        (f"{PLAIN} required = 5;", "an option is expected"),
    ],
)
def test_what_kafka_refuses_is_refused_without_showing_values(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        jaas.parse(text, where="client.properties:7")
    assert caught.value.key == "sasl.jaas.config"
    assert str(caught.value).startswith("client.properties:7: sasl.jaas.config")
    assert "pl4nted" not in str(caught.value)


def test_values_are_not_in_the_repr() -> None:
    assert "s3cret" not in repr(jaas.parse(f'{PLAIN} required password="s3cret";'))
