"""Tables line up in screen columns, colours are an argument, long cells are cut."""

from reconciler.render.table import MAX_CELL, Cell, Style, columns_of, table


def test_columns_line_up_and_lines_end_without_spaces():
    assert table(
        [["a", Cell(text="1", right=True)], ["bbb", Cell(text="22", right=True)]], heads=["x", "n"]
    ) == [
        "x     n",
        "a     1",
        "bbb  22",
    ]


def test_wide_and_combining_characters_count_as_they_show():
    assert columns_of("日本") == 4
    assert columns_of("e\u0301") == 1
    assert table([["日本", "x"], ["abcd", "x"]]) == ["日本  x", "abcd  x"]


def test_colours_are_written_only_when_asked_for():
    row = [[Cell(text="a", colours=("red", "bold")), "b"]]
    assert table(row) == ["a  b"]
    assert table(row, style=Style(colour=True)) == ["\x1b[31;1ma\x1b[0m  b"]


def test_colour_codes_take_no_columns():
    lines = table([[Cell(text="a", colours=("red",)), "x"], ["bb", "x"]], style=Style(colour=True))
    assert lines == ["\x1b[31ma\x1b[0m   x", "bb  x"]


def test_a_long_cell_is_cut_with_an_ellipsis():
    (line,) = table([["日" * 200]])
    assert columns_of(line) <= MAX_CELL
    assert line.endswith("…")


def test_rows_may_be_shorter_than_others_and_indented():
    assert table([["a"], ["b", "c"]], indent="  ") == ["  a", "  b  c"]
    assert table([]) == []
