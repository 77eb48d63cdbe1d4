"""The pages of recorded use in a real browser: accessible, in light and dark, on a phone, without network requests."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.render.use_reports import client_page, hostile_report, page, whole_report
from tests.servers import axe
from tests.servers.chromium import Browser, chromium

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("use")
    reports = {"whole": whole_report(), "hostile": hostile_report(), "client": client_page()}
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(page(report), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in reports}


@contextlib.contextmanager
def phone(browser: Browser) -> Iterator[None]:
    """Emulate the screen of a phone."""
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.command("Emulation.setDeviceMetricsOverride", metrics)
    try:
        yield
    finally:
        browser.command("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("name", ["whole", "hostile", "client"])
def test_the_page_renders_without_an_error_and_requests_nothing_else(browser, pages, name):
    browser.emulate()
    browser.open(pages[name])
    messages, urls = browser.logs()
    assert messages == []
    assert urls == [pages[name].as_uri()]
    assert browser.run("return document.querySelectorAll('img, iframe').length") == 0


@pytest.mark.parametrize("name", ["whole", "client"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_reports_nothing(browser, pages, scheme, name):
    browser.emulate(scheme=scheme)
    browser.open(pages[name])
    assert axe.violations(browser) == []
    with phone(browser):
        browser.open(pages[name])
        assert axe.violations(browser) == []


def test_every_chart_is_drawn_once_and_has_a_text_alternative(browser, pages):
    browser.emulate()
    browser.open(pages["whole"])
    charts = browser.run(
        "return [...document.querySelectorAll('svg.chart')].map((chart) => [chart.getAttribute('aria-label'), chart.getBoundingClientRect().height]).filter(([, height]) => height)"
    )
    assert len(charts) == 4
    assert all(label and height > 40 for label, height in charts)


TEXTS = """
const visible = [...document.querySelectorAll('svg.chart')].filter((chart) => chart.getBoundingClientRect().height);
return visible.map((chart) => {
  const frame = chart.getBoundingClientRect(), scale = frame.width / chart.viewBox.baseVal.width;
  return [...chart.querySelectorAll('text')].filter((text) => text.textContent).map((text) => {
    const box = text.getBoundingClientRect();
    return {
      text: text.textContent, size: parseFloat(getComputedStyle(text).fontSize) * scale,
      inside: box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.bottom <= frame.bottom + 1,
      box: [box.left, box.top, box.right, box.bottom],
    };
  });
});
"""


def overlap(first: list[float], second: list[float]) -> bool:
    """Whether two boxes have more than two pixels in common in both directions; a line box is taller than its letters."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return width > 2 and height > 4


@pytest.mark.parametrize("name", ["whole", "client"])
@pytest.mark.parametrize("on_phone", [False, True], ids=["desk", "phone"])
def test_every_text_of_a_chart_can_be_read(browser, pages, name, on_phone):
    browser.emulate()
    with phone(browser) if on_phone else contextlib.nullcontext():
        browser.open(pages[name])
        charts = browser.run(TEXTS)
        assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert charts
    for texts in charts:
        assert [text for text in texts if text["size"] < 10 or not text["inside"]] == []
        pairs = itertools.combinations(texts, 2)
        crossing = [pair for pair in pairs if overlap(pair[0]["box"], pair[1]["box"])]
        assert crossing == []


@pytest.mark.parametrize("name", ["whole", "client"])
def test_every_column_is_visible_on_a_laptop(browser, pages, name):
    browser.emulate()
    metrics = {"width": 1280, "height": 840, "deviceScaleFactor": 1, "mobile": False}
    browser.command("Emulation.setDeviceMetricsOverride", metrics)
    try:
        browser.open(pages[name])
        hidden = browser.run(
            "return [...document.querySelectorAll('.window')].filter((one) => one.scrollWidth > one.clientWidth).length"
        )
    finally:
        browser.command("Emulation.clearDeviceMetricsOverride", {})
    assert hidden == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_and_limits_differ_from_the_ground_and_from_each_other(browser, pages, scheme):
    browser.emulate(scheme=scheme)
    browser.open(pages["client"])
    colours = browser.run(
        "return [...document.querySelectorAll('.c-line, .c-limit, .c-limit-then')].map((shape) => getComputedStyle(shape).stroke)"
    )
    ground = browser.run(
        "return getComputedStyle(document.querySelector('section')).backgroundColor"
    )
    assert len({*colours, ground}) == 4
