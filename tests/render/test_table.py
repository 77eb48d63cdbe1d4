"""Tables align in screen columns, colours are an argument, nothing is cut, and lines fit the terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.render.table import MAX_ALIGNED, Cell, Style, columns_of, fold, fold_lines, table

WIDTHS = (80, 100, 120, 200)
WORDS = st.text(alphabet=" ab日é\u0301<=,", max_size=150).map(str.strip)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def letters(text: str) -> str:
    return "".join(plain(text).split())


def test_columns_are_aligned_and_lines_end_without_spaces():
    assert table(
        [["a", Cell(text="1", right=True)], ["bbb", Cell(text="22", right=True)]], heads=["x", "n"]
    ) == ["x     n", "a     1", "bbb  22"]


def test_wide_and_combining_characters_count_by_their_width():
    assert columns_of("日本") == 4
    assert columns_of("e\u0301") == 1
    assert table([["日本", "x"], ["abcd", "x"]]) == ["日本  x", "abcd  x"]


def test_colours_are_written_only_if_enabled():
    row = [[Cell(text="a", colours=("red", "bold")), "b"]]
    assert table(row) == ["a  b"]
    assert table(row, style=Style(colour=True)) == ["\x1b[31;1ma\x1b[0m  b"]


def test_colour_codes_do_not_count_as_columns():
    lines = table([[Cell(text="a", colours=("red",)), "x"], ["bb", "x"]], style=Style(colour=True))
    assert lines == ["\x1b[31ma\x1b[0m   x", "bb  x"]


def test_a_long_cell_is_not_truncated_and_shifts_its_own_row_only():
    name = "日" * 200
    assert table([[name, "x"], ["b", "y"]]) == [f"{name}  x", "b  y"]
    assert columns_of(name) > MAX_ALIGNED


def test_columns_that_do_not_fit_are_aligned_below_their_row():
    rows = [["a" * 30, "b" * 30, "c" * 30, "d"], ["a", "b", "c", "d"], ["a", "b", "", ""]]
    assert table(rows, heads=["A", "B", "C", "D"], style=Style(width=80), indent="  ") == [
        "  A                               B",
        "      C                               D",
        f"  {'a' * 30}  {'b' * 30}",
        f"      {'c' * 30}  d",
        "  a                               b",
        "      c                               d",
        "  a                               b",
    ]


def test_an_arrow_is_on_the_line_of_its_values():
    arrow, after = Cell(text="->", joined=True), Cell(text="7" * 30, joined=True)
    lines = table([["e" * 30, "1" * 30, arrow, after]], style=Style(width=80))
    assert lines == ["e" * 30, f"    {'1' * 30}  ->  {'7' * 30}"]


def test_rows_may_be_shorter_than_others_and_indented():
    assert table([["a"], ["b", "c"]], indent="  ") == ["  a", "  b  c"]
    assert table([]) == []


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
