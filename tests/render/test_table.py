"""Tables align in screen columns, colours are an argument, nothing is cut, and lines fit the terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.render.table import MAX_ALIGNED, Style, columns_of, fold, fold_lines, table

WIDTHS = (80, 100, 120, 200)
WORDS = st.text(alphabet=" ab日é\u0301<=,", max_size=150).map(str.strip)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def letters(text: str) -> str:
    return "".join(plain(text).split())


def test_a_long_cell_is_not_truncated_and_shifts_its_own_row_only():
    name = "日" * 200
    assert table([[name, "x"], ["b", "y"]]) == [f"{name}  x", "b  y"]
    assert columns_of(name) > MAX_ALIGNED


def test_sentences_are_wrapped_at_spaces_and_names_only_if_necessary():
    assert fold("  one two three " + "x" * 90, 40, hang=4) == [
        "  one two three",
        "    " + "x" * 36,
        "    " + "x" * 36,
        "    " + "x" * 18,
    ]
    assert fold_lines(["  " + "word " * 12], Style(width=40)) == [
        "  " + "word " * 6 + "word",
        "    word word word word word",
    ]
    assert fold_lines(["x " * 300], Style()) == ["x " * 300]


def test_a_coloured_line_is_wrapped_like_a_plain_one():
    line = Style(colour=True).paint("word " * 12 + "end", "red")
    assert [plain(part) for part in fold(line, 40, hang=2)] == fold(plain(line), 40, hang=2)


@pytest.mark.parametrize("width", WIDTHS)
@given(rows=st.lists(st.lists(WORDS, min_size=1, max_size=8), max_size=4))
def test_every_line_fits_and_no_text_is_lost(width, rows):
    lines = table(rows, style=Style(width=width), indent="  ")
    assert all(columns_of(line) <= width for line in lines)
    assert sorted(letters("".join(lines))) == sorted(letters("".join(map("".join, rows))))


@given(rows=st.lists(st.lists(WORDS, min_size=1, max_size=8), max_size=4))
def test_without_a_width_a_row_is_one_line_and_no_text_is_lost(rows):
    lines = table(rows)
    assert [letters(line) for line in lines] == [letters("".join(row)) for row in rows]
