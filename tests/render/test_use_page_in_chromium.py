"""The page of recorded use in a real browser: accessible, in light and dark, without network requests."""

from pathlib import Path

import pytest

from tests.render.use_reports import hostile_report, page, whole_report
from tests.servers import axe
from tests.servers.chromium import chromium

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("use")
    for name, report in (("whole", whole_report()), ("hostile", hostile_report())):
        (folder / f"{name}.html").write_text(page(report), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in ("whole", "hostile")}


@pytest.mark.parametrize("name", ["whole", "hostile"])
def test_the_page_renders_without_an_error_and_requests_nothing_else(browser, pages, name):
    browser.emulate()
    browser.open(pages[name])
    messages, urls = browser.logs()
    assert messages == []
    assert urls == [pages[name].as_uri()]
    assert browser.run("return document.querySelectorAll('script, img, iframe').length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_reports_nothing(browser, pages, scheme):
    browser.emulate(scheme=scheme)
    browser.open(pages["whole"])
    assert axe.violations(browser) == []


def test_every_chart_is_drawn_and_has_a_text_alternative(browser, pages):
    browser.emulate()
    browser.open(pages["whole"])
    charts = browser.run(
        "return [...document.querySelectorAll('svg.chart')].map((one) => [one.getAttribute('aria-label'), one.getBoundingClientRect().height])"
    )
    assert len(charts) == 4
    assert all(label and height > 40 for label, height in charts)


def test_curves_use_the_colours_of_the_page(browser, pages):
    browser.emulate()
    browser.open(pages["whole"])
    stroke = "return getComputedStyle(document.querySelector('.c-line')).stroke"
    assert browser.run(stroke) not in {"none", "rgb(0, 0, 0)"}
