"""The HTML frame: each part once, escaped text, and a policy that allows exactly this style and script."""

import re

from reconciler.app.html_page import joined_files
from reconciler.render.html.frame import FRAME, fill_template, page_frame


def frame() -> str:
    return joined_files(FRAME)


def policy(page: str) -> str:
    match = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert match is not None
    return match[1]


def test_placeholders_are_replaced_once_and_inserted_text_is_not_searched():
    text = fill_template(
        "<a>{{first}}<b>{{second}}<c>", {"first": "{{second}}{{first}}", "second": "2"}
    )
    assert text == "<a>{{second}}{{first}}<b>2<c>"


def test_a_title_is_text_on_one_line():
    page = page_frame(frame(), title="</title><script>\n", style="", body="")
    titles = re.findall("<title>(.*)</title>", page)
    assert len(titles) == 1
    assert titles[0].startswith("&lt;/title&gt;&lt;script&gt;")


def test_a_page_without_a_script_allows_none():
    page = page_frame(frame(), title="use", style="p {}", body="<main></main>")
    assert "script-src" not in policy(page)
    assert policy(page).startswith("default-src 'none'; style-src 'sha256-")


def test_the_content_security_policy_matches_the_script_and_the_style():
    policies = {
        policy(page_frame(frame(), title="plan", style=style, body="", script=script))
        for style in ("p {}", "p { }")
        for script in ("go()", "go();")
    }
    assert len(policies) == 4
    assert all("script-src 'sha256-" in text for text in policies)
