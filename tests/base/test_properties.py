import javaproperties
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.base import properties
from reconciler.errors import ConfigError

TEXT = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab=: \t\f\\\n\r#!u0041fn;\"'é"),
        st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\x00"),
    ),
    max_size=60,
)


def entries_of(text: str) -> dict[str, str]:
    return {pair.key: pair.value for pair in properties.parse(text)}


@given(TEXT)
@example("a\\\n  b = c")
@example("key")
@example("= value")
@example("a \\= b")
@example("a\\:b:c")
@example("\\")
@example("\\\nb")
@example("a=b\\")
@example("a=b\\\n")
@example("a=b\\\\\nc=d")
@example("a = b \\\n   # no comment\n")
@example("a=\\\r\nb")
@example("#c\\\nd=e")
@example("a=\\ud83d\\ude00")
def test_every_text_is_parsed_as_by_an_independent_reader(text: str) -> None:
    try:
        expected = dict(javaproperties.loads(text))
    except javaproperties.InvalidUEscapeError:
        with pytest.raises(ConfigError):
            entries_of(text)
        return
    assert entries_of(text) == expected


def test_the_line_number_of_a_pair_is_its_first_line() -> None:
    entries = properties.parse("# one\n\na = 1\\\n  2\nb = 3\n")
    assert [(entry.key, entry.value, entry.line) for entry in entries] == [
        ("a", "12", 3),
        ("b", "3", 5),
    ]


@pytest.mark.parametrize("bad", [r"a=\u12", r"a=\uXYZW", r"\u=1"])
def test_an_invalid_escape_is_an_error_with_its_line(bad: str) -> None:
    with pytest.raises(ConfigError, match=r"client\.properties:2: .*four hexadecimal digits"):
        properties.parse(f"x=1\n{bad}", location="client.properties")


@pytest.mark.parametrize(
    ("content", "value"), [("k=é".encode(), "é"), (b"\xef\xbb\xbfk=1", "1"), (b"k=\xe9", "é")]
)
def test_files_are_read_as_utf8_or_else_latin1(tmp_path, content: bytes, value: str) -> None:
    path = tmp_path / "p"
    path.write_bytes(content)
    assert [(entry.key, entry.value) for entry in properties.read(path)] == [("k", value)]


def test_a_file_that_is_missing_too_large_or_has_an_invalid_path_is_an_error(tmp_path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"a" * (4 * 1024 * 1024 + 1))
    for path, words in (
        (tmp_path / "missing", "No such file"),
        (tmp_path, "directory"),
        (large, "larger than 4 MiB"),
        (tmp_path / "a\0b", "not a path"),
    ):
        with pytest.raises(ConfigError, match=words):
            properties.read(path)


def test_values_are_not_in_the_repr() -> None:
    assert "s3cret" not in repr(properties.parse("a=s3cret"))
