"""No text in a name can forge a line, a cell, a colour, a mention or a command."""

import re
import unicodedata
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base import escaping

NASTY = [
    "",
    "<default>",
    " leading",
    "trailing ",
    "CN=alice,O=Acme, Inc.",
    'quo"te',
    "back\\slash",
    "pipe|pipe",
    "tick`tick``",
    "@team",
    "<script>alert(1)</script>",
    "line\nbreak\r\n",
    "\x1b[31mred\x1b[0m",
    "::set-output name=x::y",
    "##[set-output name=x]y",
    "##vso[task.setvariable]y",
    "\u202eevil",
    "\u2066iso\u2069",
    "שלום",
    "مرحبا",
    "\u0301combining",
    "zero\u200bwidth",
    "nbsp\u00a0",
    "\ud800lone",
    "*bold* _it_ [a](b) #12",
    "=1+1",
    "ünïcode/日本:x=y",
    "😀",
]


def is_one_calm_line(text: str) -> bool:
    return text.isprintable() and not any(
        unicodedata.bidirectional(c) in {"R", "AL", "AN"} for c in text
    )


LOOKALIKES = st.text(
    "eKo\u00e9\u0301\u0323\u0327\u212a\u2126\u1100\u1161\u11a8\uac00\u0958\u1fef\u037e"
)


@given(LOOKALIKES, LOOKALIKES)
def test_names_that_differ_only_in_unicode_normalization_are_written_differently(name, second_name):
    """Separate accents, accents in another order, or the Kelvin sign: Kafka regards these as different names."""
    for write in (escaping.quoted, escaping.markdown, escaping.html):
        assert unicodedata.is_normalized("NFC", write(name))
    assert (escaping.quoted(name) == escaping.quoted(second_name)) == (name == second_name)
    if unicodedata.is_normalized("NFC", name) and not unicodedata.combining(name[:1] or "x"):
        assert escaping.escaped(name) == name


def test_a_name_of_many_accents_is_quoted_in_linear_time():
    assert len(escaping.quoted("e" + "\u0301\u0323" * 16_000)) > 32_000


@given(st.one_of(st.sampled_from(NASTY), st.text()))
def test_every_text_is_one_line_without_control_or_reordering_characters(name):
    for write in (
        escaping.escaped,
        escaping.quoted,
        escaping.markdown,
        escaping.html,
        escaping.prose,
        escaping.command_property,
    ):
        assert is_one_calm_line(write(name)), write


@given(st.one_of(st.sampled_from(NASTY), st.text(alphabet="`|\\@<>*_[]()#&; a")))
def test_markdown_is_one_code_span_or_one_code_element_without_markup(name):
    text = escaping.markdown(name)
    span = re.fullmatch(r"`([^`|\\]+)`", text)
    element = re.fullmatch(r"<code>((?:[^`|\\@<>&*\[\]#!~$]|&#\d+;)*)</code>", text)
    assert span or element


@given(st.one_of(st.sampled_from(NASTY), st.text(alphabet="@#!$~%&:/.w-+*_`|<>[] ab1")))
def test_an_escaped_sentence_contains_neither_markup_nor_references(text):
    new_text = escaping.prose(text)
    outside = re.sub(r"<code>&#\d+;</code>", " ", new_text)
    assert not re.search(r"[`|<*\[\]\\~]|://|www\.|^[-+>=#]", outside, re.IGNORECASE)
    assert not re.search(r"(?<![A-Za-z0-9_])_|_(?![A-Za-z0-9_])", outside)
    assert not re.search(r"[@#!$~%&][\w\"'{\[]", unescape(outside))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("producer_byte_rate: 5 -> 10 (x2), 50.5 %", "producer_byte_rate: 5 -> 10 (x2), 50.5 %"),
        ("at 2025-11-21T12:00:00Z", "at 2025-11-21T12:00:00Z"),
        ("INVALID_REQUEST & more", "INVALID_REQUEST & more"),
        ("_private_ a_b", "&#95;private&#95; a_b"),
        ("1. first", "&#49;&#46; first"),
        ("1.5 MiB/s", "1.5 MiB/s"),
        ("- item", "&#45; item"),
        ("/close", "&#47;close"),
        (":tada: done", "<code>&#58;</code>tada: done"),
        ("see GH-12", "see GH<code>&#45;</code>12"),
        ("[a](b)", "&#91;a&#93;(b)"),
    ],
)
def test_only_a_character_that_would_be_interpreted_is_escaped(text, written):
    assert escaping.prose(text) == written


def test_colours_and_reordering_marks_are_shown_as_escapes():
    assert escaping.quoted("\x1b[31m") == '"\\u001b[31m"'
    assert escaping.quoted("\u202ea") == '"\\u202ea"'


def test_workflow_commands_keep_their_line_breaks_and_escape_the_rest():
    assert escaping.command_text("50%\nof: a,b") == "50%25%0Aof: a,b"
    assert escaping.command_property("a:b,c%") == "a%3Ab%2Cc%25"


@given(st.text(alphabet="ahtps:/.w[]()<>!@&;\\ ", max_size=60))
def test_addresses_in_a_sentence_do_not_become_links(text):
    """GitLab's filter links `scheme://` within one text node of the finished page, except within code."""
    page = re.sub(r"<code>.*?</code>", "\0", escaping.prose(f"see {text} https://evil.example/x"))
    nodes = unescape(page)
    assert "://" not in nodes
    assert unescape(re.sub("</?code>", "", escaping.prose(text))) == escaping.escaped(text)
