"""Cutting texts into skeleton and values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifest.document import DocumentDeclined
from reconciler.manifest.document_templates import (
    TemplateFiller,
    absent,
    address,
    cut,
    default,
    name,
    text_of,
)

CUT = {
    "plain": ("name: alice\n", ["alice"]),
    "flow": ("{name: alice, namespace: b}\n", ["alice", "b"]),
    "quoted": ("user: {name: \"CN=a, O=b\", x: 'y z'}\n", ['"CN=a, O=b"', "'y z'"]),
    "inner colon": ("a: User:b\n", ["User:b"]),
    "at the end": ("a: b", ["b"]),
    "windows line end": ("a: b\r\nc: d\r\n", ["b", "d"]),
    "before a comment": ("a: b # c: d\n", ["b"]),
    "comment only": ("# a: b\n", []),
    "hash in quotes": ('a: "b #c"\n', ['"b #c"']),
    "blanks inside": ("a: b c\n", []),
    "comma outside a flow mapping": ("a: b,c\n", ["b"]),
    "escaped": ('a: "b\\n"\n', []),
    "quote inside single quotes": ("a: 'it''s'\n", []),
    "tag, anchor, alias": ("a: !x b\nc: &d e\nf: *d\n", []),
    "open quote": ('a: "b\n', []),
    "ends in a colon": ("a: b:\n", []),
    "address": ("a: 10.0.0.7\n", ["10.0.0.7"]),
    "list": ("- a\n- b: c\n", ["c"]),
}


@pytest.mark.parametrize(("text", "values"), CUT.values(), ids=CUT)
def test_only_values_that_cannot_change_the_text_around_them_are_cut_out(
    text: str, values: list[str]
) -> None:
    assert cut(text).values == values


def test_texts_that_differ_in_values_alone_share_a_skeleton() -> None:
    assert cut("a: b\nc: {d: e}\n").skeleton == cut("a: 'x y'\nc: {d: \"\"}\n").skeleton


@pytest.mark.parametrize(
    ("one", "other"),
    [("a: b\n", "c: b\n"), ("a: b\n", "a: b\n\n"), ("a: b\n", " a: b\n"), ("a: b # c\n", "a: b\n"), ("a: b\n#\n", "a: b\n: #\n"),
     ("a: b #c\n", "a: b : c\n")],
)  # fmt: skip
def test_texts_that_differ_in_more_do_not(one: str, other: str) -> None:
    assert cut(one).skeleton != cut(other).skeleton


@given(st.text("ab:# \"'\n{},-", max_size=20))
def test_no_character_of_a_text_is_lost_in_the_cut(text: str) -> None:
    skeleton, values = cut(text)
    kinds = [part for part in skeleton if isinstance(part, bool)]
    strings = [part for part in skeleton if isinstance(part, str)]
    if "#" not in text:
        assert ": ".join(a + b for a, b in zip(["", *values], strings, strict=True)) == text
    else:
        assert len(kinds) == len(strings) - 1
        assert kinds.count(False) == len(values)


@pytest.mark.parametrize(
    ("value", "text"), [("alice", "alice"), ('"a b"', "a b"), ("'1'", "1"), ('""', "")]
)
def test_a_value_has_its_text(value: str, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize("value", ["123", "on", "1e7", "12:30"])
def test_an_ambiguous_plain_value_is_declined(value: str) -> None:
    with pytest.raises(DocumentDeclined):
        text_of(value)


def test_a_slot_is_read_as_what_its_field_says() -> None:
    assert (absent("x"), default("true"), name('"true"'), address("::1".replace("::1", "1::"))) == (
        False,
        None,
        "true",
        "1::",
    )
    for reader, value in (
        (default, "false"),
        (name, '""'),
        (address, "010.1.1.1"),
        (address, '"::0"'),
    ):
        with pytest.raises(DocumentDeclined):
            reader(value)


def test_a_filler_remembers_values_and_not_mistakes() -> None:
    filler = TemplateFiller()
    assert filler._limit(0, "10Mi") == filler._limit(0, '"10Mi"') == 10485760.0
    for _ in range(2):
        with pytest.raises(DocumentDeclined):
            filler._limit(0, "10MB")
