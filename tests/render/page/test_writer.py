"""The page as text: well-formed, self-contained, and every name is text."""

import base64
import hashlib
import re
from importlib.resources import files

import pytest

from reconciler.app.html_page import page_files
from reconciler.render.page.writer import (
    FRAME,
    SCRIPT,
    STYLES,
    PagePart,
    fill_template,
    page_html,
    page_section,
)
from reconciler.render.sections import CellText, TableForm, name, number, state
from tests.render.page_reader import read_page
from tests.render.pages import HOSTILE, hostile_look, look, page


def test_placeholders_are_replaced_once_and_inserted_text_is_not_searched():
    text = fill_template(
        "<a>{{first}}<b>{{second}}<c>", {"first": "{{second}}{{first}}", "second": "2"}
    )
    assert text == "<a>{{second}}{{first}}<b>2<c>"


@pytest.mark.parametrize("new_page", [page(), page(look("a"), look("b")), page(hostile_look())])
def test_a_page_is_well_formed_with_one_script_and_one_style(new_page):
    reading = read_page(new_page)
    assert (reading.tags.count("script"), reading.tags.count("style")) == (1, 1)
    assert reading.tags.count("h1") == 1
    assert ("html", "lang", "en") in reading.attributes
    assert new_page.startswith("<!DOCTYPE html>\n")
    ids = [value for _, attribute, value in reading.attributes if attribute == "id"]
    links = [value for _, attribute, value in reading.attributes if attribute == "href"]
    assert [f"#{anchor}" for anchor in ids] == links[1:]
    assert len(set(ids)) == len(ids)


def test_a_page_loads_nothing_from_other_addresses():
    reading = read_page(page())
    loaded = {
        value
        for _, attribute, value in reading.attributes
        if attribute in {"src", "href", "action", "srcset"} and not value.startswith("#")
    }
    assert loaded == {"data:,"}
    assert "url(" not in page_files().style
    assert "@import" not in page_files().style
    for word in (
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ):
        assert word not in page_files().script


def test_the_script_is_short_enough_to_be_read_by_a_reviewer():
    assert len(page_files().script.splitlines()) <= 80


def test_the_policy_allows_the_script_and_the_style_of_the_page_only():
    reading = read_page(page(hostile_look()))
    (policy,) = [
        value
        for tag, attribute, value in reading.attributes
        if tag == "meta" and attribute == "content" and "default-src" in (value or "")
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        (text,) = reading.all_texts(tag)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"


def test_no_name_becomes_markup():
    usual, hostile = read_page(page()), read_page(page(hostile_look()))
    assert set(hostile.tags) <= set(usual.tags) | {"dd"}
    usual_attributes = {(tag, attribute) for tag, attribute, _ in usual.attributes}
    assert {(tag, attribute) for tag, attribute, _ in hostile.attributes} <= usual_attributes
    text = page(hostile_look())
    for hostile_name in HOSTILE[:7]:
        assert hostile_name not in text or hostile_name in page_files().frame
    users = {cell[0] for cell in hostile.column("quotas", "Client")}
    assert f'user="{HOSTILE[2]}"' in users


def test_texts_of_users_are_on_one_line_without_reordering_characters():
    reading = read_page(page(hostile_look()))
    values = [value or "" for _, attribute, value in reading.attributes if attribute != "content"]
    for tag, text in reading.texts:
        if tag not in {"style", "script"} and text.strip():
            values.append(text)
    for text in values:
        assert text.isprintable(), text
        assert not set("\u202e\u2028\u2029") & set(text)


def test_a_section_has_its_cells_its_colours_and_what_it_leaves_out():
    form = TableForm(
        "one",
        "One <title>",
        "",
        (
            name("Who", lambda row: CellText(row, ("<below>",))),
            number("Value", lambda _: "5 B/s"),
            state("Effect", lambda _: "newly limited"),
        ),
    )
    section = page_section(form.of(["a\nb", "c", "d"], 7, most=1), elsewhere="elsewhere")
    assert section.total == 10
    assert (
        '<tr><th scope="row" class="name">a\\u000ab<small>&lt;below&gt;</small></th>'
        '<td class="number">5 B/s</td>'
        '<td><span class="pill warn">newly limited</span></td></tr>'
    ) in section.inner
    assert "and 9 more rows, elsewhere" in section.inner
    part = PagePart(title="</title><script>\n", head="", sections=[section])
    new_page = page_html([part], page_files(), title=part.title, created="now", tool_version="1")
    assert re.findall("<title>(.*)</title>", new_page) == ["&lt;/title&gt;&lt;script&gt;\\u000a"]
    assert ">One &lt;title&gt; <span" in new_page


def test_every_file_of_the_page_folder_is_used():
    names = {path.name for path in files("reconciler.render").joinpath("page").iterdir()}
    used = {file for file in names if not file.endswith(".py") and file != "__pycache__"}
    assert used == {FRAME, SCRIPT, *STYLES}
