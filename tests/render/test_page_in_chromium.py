"""The page in a real browser: readable without a script, on a phone and on paper; sorted and filtered with it."""

import itertools
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.render.pages import hostile_look, large_look, look, page, recorded
from tests.servers import axe
from tests.servers.chromium import Browser, chromium

pytestmark = pytest.mark.integration

MANY = 10_000
TYPE = """
const [selector, text] = arguments;
const input = document.querySelector(selector);
input.value = text;
input.dispatchEvent(new Event('input'));
return document.querySelector(selector.split(' ')[0] + ' output').textContent;
"""
SHOWN = "return [...document.querySelectorAll('#quotas tbody tr')].filter((row) => row.offsetHeight).map((row) => row.cells[0].innerText.split('\\n')[0])"
GROUND = "return getComputedStyle(document.body).backgroundColor"
CUT = (
    "return [...document.querySelectorAll('.window')].filter((one) => one.scrollWidth > one.clientWidth)"
    ".map((one) => one.ariaLabel)"
)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    long_names = replace(look("prod-" + "x" * 120), recorded=recorded("n" * 200, "bob"))
    texts = {
        "plan": page(look()),
        "two": page(look("one"), hostile_look()),
        "hostile": page(hostile_look()),
        "long": page(long_names),
        "many": page(large_look(MANY)),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture
def width(browser, request):
    """The width of the screen in pixels."""
    metrics = {"width": request.param, "height": 840, "deviceScaleFactor": 1, "mobile": False}
    browser.command("Emulation.setDeviceMetricsOverride", metrics)
    yield request.param
    browser.command("Emulation.clearDeviceMetricsOverride", {})


def opened(browser: Browser, path: Path, **emulated: str) -> None:
    browser.emulate(**emulated)
    browser.open(path)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true;")


@pytest.mark.parametrize("name", ["plan", "two", "hostile", "many"])
def test_a_page_renders_without_an_error_and_requests_nothing_else(browser, pages, name):
    opened(browser, pages[name])
    browser.run("for (const one of document.querySelectorAll('thead button')) one.click();")
    messages, urls = browser.logs()
    assert messages == []
    assert urls == [pages[name].as_uri()]
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return window.broken ?? null") is None
    assert browser.run("return document.querySelectorAll('img, svg, iframe, b').length") == 0
    assert browser.run("return document.querySelectorAll('script').length") == 1


def test_without_scripts_a_page_has_the_same_texts(browser, pages):
    text = "return document.querySelector('main').textContent"
    browser.command("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, pages["plan"])
        plain = browser.run(text)
        assert browser.run("return document.querySelectorAll('input').length") == 0
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", {"value": False})
    opened(browser, pages["plan"])
    browser.run("for (const one of document.querySelectorAll('.controls')) one.remove()")
    assert browser.run(text) == plain


@pytest.mark.parametrize("width", [390, 1280], indirect=True)
@pytest.mark.parametrize("name", ["plan", "two", "hostile", "long"])
def test_no_page_is_wider_than_the_screen_whatever_the_names(browser, pages, name, width):
    opened(browser, pages[name])
    assert browser.run("return document.documentElement.scrollWidth") == width
    if width == 1280:
        assert browser.run(CUT) == [], "a laptop shows every column"


def test_a_table_sorts_in_both_directions_and_indicates_the_direction(browser, pages):
    opened(browser, pages["plan"])
    press = "const head = document.querySelectorAll('#quotas thead th')[2]; head.querySelector('button').click(); return head.ariaSort"
    values = "return [...document.querySelectorAll('#quotas tbody tr')].map((one) => one.cells[2].innerText.split('\\n')[0])"
    assert browser.run(press) == "ascending"
    up = browser.run(values)
    assert up[:2] == ["77 B/s", "4096 (4 KiB/s)"]
    assert browser.run(press) == "descending"
    assert browser.run(values) == up[::-1]
    sorted_heads = "return document.querySelectorAll('#quotas [aria-sort$=ending]').length"
    assert browser.run(sorted_heads) == 1


def test_a_filter_keeps_the_rows_with_all_words(browser, pages):
    opened(browser, pages["many"])
    assert browser.run(TYPE, "#quotas input", "user-0012 etl").endswith(" of 2000 rows")
    clients = browser.run(SHOWN)
    assert 0 < len(clients) < 10
    assert all("user-0012" in client and "etl" in client for client in clients)
    assert browser.run(TYPE, "#quotas input", "nobody has this name") == "0 of 2000 rows"
    assert browser.run(SHOWN) == []
    browser.run(TYPE, "#quotas input", "")
    assert len(browser.run(SHOWN)) == 2000


def test_every_control_is_reachable_by_keyboard_and_visible_in_focus(browser, pages):
    opened(browser, pages["plan"])
    focus = "const one = document.activeElement; return [one.tagName, parseFloat(getComputedStyle(one).outlineWidth)]"
    stops = []
    for _ in range(80):
        browser.keys("\ue004")
        stops.append(browser.run(focus))
    assert {"A", "BUTTON", "INPUT", "DIV"} <= {tag for tag, _ in stops}
    assert all(outline >= 2 for tag, outline in stops if tag not in {"BODY", "HTML"})


def test_light_and_dark_follow_the_system(browser, pages):
    opened(browser, pages["plan"], scheme="light")
    light = browser.run(GROUND)
    browser.emulate(scheme="dark")
    assert browser.run(GROUND) != light


@pytest.mark.parametrize("width", [720], indirect=True)
def test_the_print_layout_has_open_tables_in_light_colours_and_no_controls(browser, pages, width):
    opened(browser, pages["plan"], scheme="dark", media="print")
    assert browser.run(GROUND) == "rgb(255, 255, 255)"
    for hidden in ("nav", ".controls"):
        display = f"return getComputedStyle(document.querySelector('{hidden}')).display"
        assert browser.run(display) == "none"
    wide = "return [...document.querySelectorAll('table')].filter((one) => one.scrollWidth > document.documentElement.clientWidth).length"
    assert browser.run(wide) == 0
    assert browser.command("Page.printToPDF", {"printBackground": True})["data"]


@pytest.mark.parametrize(
    ("name", "scheme"), list(itertools.product(["plan", "two", "hostile"], ["light", "dark"]))
)
def test_the_accessibility_checker_reports_nothing(browser, pages, name, scheme):
    opened(browser, pages[name], scheme=scheme)
    browser.run("document.querySelector('thead button').click()")
    assert axe.violations(browser) == []
