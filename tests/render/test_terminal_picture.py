"""The pictures of plans: the text of a terminal with its colours, as an SVG; equal to the command's output."""

import re
from html import unescape

import pytest

from tests.render.terminal_picture import (
    COMMAND,
    PICTURES,
    PROJECTS,
    output_of,
    picture,
    spans,
)


def picture_lines(svg: str) -> list[str]:
    """The lines of a picture."""
    rows = re.findall(r"<text [^>]*>(.*?)</text>", svg)
    return [unescape(re.sub(r"<[^>]*>", "", row)) for row in rows]


def test_the_colours_of_a_line_become_attributes_and_its_text_is_unchanged():
    line = "a \x1b[32m+\x1b[0m <b> \x1b[1;31mno\x1b[m &"
    assert list(spans(line)) == [
        ("a ", ""),
        ("+", ' fill="#a6e3a1"'),
        (" <b> ", ""),
        ("no", ' fill="#f38ba8" font-weight="bold"'),
        (" &", ""),
    ]


@pytest.mark.parametrize(("name", "project"), PROJECTS.items())
def test_a_picture_shows_the_changes_and_budgets_that_the_command_prints(name, project):
    """`python -m tests.render.terminal_picture` updates it."""
    old = picture_lines((PICTURES / name).read_text(encoding="utf-8"))
    new = picture_lines(picture(COMMAND, output_of(COMMAND, project)))
    assert old[:3] == new[:3]
    for place in (re.compile(r"quotas/\S+:[0-9]+"), re.compile(r"[0-9]+ % promised")):
        assert place.findall("\n".join(old)) == place.findall("\n".join(new))
