"""The page in a real browser: it renders, sorts and filters 10,000 entities, and loads nothing from a network."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.desired_state import merge
from reconciler.quota.planner.impact import assess
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.cluster_state import _bucket  # including the words that the page uses
from reconciler.render.json_values import value_json
from tests.hypothesis_profiles import count_examples
from tests.quota import strategies
from tests.render.pages import hostile_look, large_look, look, looked, page, recorded
from tests.servers import axe
from tests.servers.chromium import Browser, chromium

pytestmark = pytest.mark.integration

MANY = 10_000
ROWS = "return document.querySelectorAll('#quotas tbody.rows tr').length"
FIRST = "return document.querySelector('#quotas tbody.rows tr')?.innerText"
STATUS = "return document.querySelector('#quotas .shown').textContent"
ANSWER = "return document.querySelector('.answer').innerText"
TYPE = """
const [selector, text] = arguments;
const input = document.querySelector(selector);
input.value = text;
input.dispatchEvent(new Event(input.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true}));
"""
HEAD_WIDTHS = """
return [...document.querySelectorAll('#recorded thead th')].map((one) => one.getBoundingClientRect().width)
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "plan": page(look()),
        "report": page(look(), kind="report"),
        "two": page(look("one"), hostile_look()),
        "hostile": page(hostile_look()),
        "many": page(large_look(MANY), kind="report"),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def opened(browser: Browser, path: Path) -> None:
    browser.emulate()
    browser.open(path)


@pytest.mark.parametrize("name", ["plan", "report", "two", "hostile", "many"])
def test_a_page_renders_without_an_error_and_requests_nothing_else(browser, pages, name):
    opened(browser, pages[name])
    browser.run("for (const one of document.querySelectorAll('button.entity')) one.click();")
    browser.run("for (const one of document.querySelectorAll('thead button')) one.click();")
    messages, urls = browser.logs()
    assert messages == []
    assert urls == [pages[name].as_uri()]
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.run("return performance.getEntriesByName('kquota-ready').length") == 1
    assert browser.run("return document.querySelector('h1').textContent").endswith(
        {"two": "one", "hostile": "</script><script>window.broken=1</script>"}.get(name, "prod")
    )


def test_no_name_becomes_markup_or_script(browser, pages):
    opened(browser, pages["hostile"])
    browser.run(TYPE, ".ask input", "<img src=x onerror=window.broken=4>")
    assert browser.run("return window.broken ?? null") is None
    assert browser.run("return document.querySelectorAll('img, svg, iframe, b').length") == 0
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert "<img src=x onerror=window.broken=4>" not in browser.run("return document.title")
    assert browser.logs()[0] == []


def test_the_headline_names_the_validator_and_the_page_states_that_limits_apply_per_broker(
    browser, pages
):
    opened(browser, pages["plan"])
    assert "validated by the broker" in browser.run(
        "return document.querySelector('.first').innerText"
    )
    assert browser.run("return document.body.innerText").count("Limits apply per broker") >= 3
    opened(browser, pages["hostile"])
    first = browser.run("return document.querySelector('.first').innerText")
    assert "not by the broker" in first
    assert "2 h old" in first


def test_a_change_shows_both_values_its_effect_its_cause_and_its_place(browser, pages):
    opened(browser, pages["plan"])
    rows = browser.run(
        "return [...document.querySelectorAll('#changes tbody.rows tr')].map((one) => one.innerText)"
    )
    (row,) = [row_text for row_text in rows if "Takeover" in row_text]
    for word in (
        "user=alice",
        "producer_byte_rate",
        "5 MB/s",
        "10 MiB/s",
        "10485760",
        "loosened x2.1",
        "quotas/10.yaml:8",
        "team/alice",
    ):
        assert word in row


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["recorded", "hostile"])
def test_no_page_is_wider_than_the_screen_whatever_the_names(browser, pages, tmp_path, name, width):
    recorded_use = replace(look("prod-" + "x" * 120), recorded=recorded("n" * 200, "bob"))
    (tmp_path / "recorded.html").write_text(page(recorded_use))
    opened(browser, pages.get(name, tmp_path / "recorded.html"))
    metrics = {"width": width, "height": 840, "deviceScaleFactor": 1, "mobile": False}
    browser.command("Emulation.setDeviceMetricsOverride", metrics)
    try:
        assert browser.run("return document.documentElement.scrollWidth") == width
        (who, *_) = browser.run(HEAD_WIDTHS) if name == "recorded" else (0,)
    finally:
        browser.command("Emulation.clearDeviceMetricsOverride", {})
    assert who < 390


@pytest.mark.parametrize("name", ["plan", "two", "hostile"])
def test_every_column_of_a_plan_is_shown_on_a_laptop(browser, pages, name):
    opened(browser, pages[name])
    metrics = {"width": 1280, "height": 840, "deviceScaleFactor": 1, "mobile": False}
    browser.command("Emulation.setDeviceMetricsOverride", metrics)
    try:
        cut = browser.run(
            "return [...document.querySelectorAll('.window')].filter((one) => one.scrollWidth > one.clientWidth)"
            ".map((one) => one.ariaLabel)"
        )
    finally:
        browser.command("Emulation.clearDeviceMetricsOverride", {})
    assert cut == []


def test_recorded_use_is_in_its_own_section_and_its_refusals_among_the_obstacles(browser, tmp_path):
    (tmp_path / "page.html").write_text(page(replace(look(), recorded=recorded("alice", "bob"))))
    opened(browser, tmp_path / "page.html")
    section = browser.run("return document.querySelector('#recorded').innerText")
    for words in (
        "alice will be worse off",
        "20 MiB/s → 10 MiB/s",
        "throttled 10 min a day (bob)",
        "not known",
        "a note on alice",
        "3 rows of other brokers not listed",
    ):
        assert words in section
    trouble = browser.run("return document.querySelector('#trouble').innerText")
    assert "Refused by the recorded-use policy (1)" in trouble
    assert browser.logs()[0] == []


def test_exclusive_removals_are_in_their_own_section(browser, tmp_path):
    state = QuotaState(limits={entity(user="stranger"): limits_of({COLUMNS[0]: 5000.0})})
    removed = QuotaChange(
        entity=entity(user="stranger"),
        key=COLUMNS[0],
        before=5000.0,
        after=None,
        cause=Cause.UNMANAGED,
    )
    new_page = looked(merge([]), OwnershipRecords(cluster_id="c"), state)
    plan = Plan(cluster_id="c", changes=(removed,))
    preview = replace(new_page.preview, plan=plan, impact=assess(plan, state))
    (tmp_path / "page.html").write_text(page(replace(new_page, preview=preview)))
    opened(browser, tmp_path / "page.html")
    assert "user=stranger" in browser.run("return document.querySelector('#exclusive').innerText")
    assert "user=stranger" not in browser.run("return document.querySelector('#changes').innerText")
    assert browser.logs()[0] == []


def test_a_client_is_resolved_with_its_overridden_levels_before_and_after_the_plan(browser, pages):
    opened(browser, pages["plan"])
    browser.run(TYPE, ".ask label:nth-of-type(1) input", "alice")
    browser.run(TYPE, ".ask label:nth-of-type(2) input", "shop")
    answer = browser.run(ANSWER)
    assert "After this plan" in answer
    assert "5 MB/s" in answer
    assert "20 MB/s" in answer
    assert "user + client-id" in answer
    assert "level" not in answer
    assert "10 MiB/s (10485760)" in answer  # lost: the limit of the user
    assert "no other client" in answer
    browser.run("document.querySelector('.ask button').click()")
    browser.wait_for("return document.querySelector('.answer').innerText.includes('Type a user')")


def test_an_entity_in_a_table_is_resolved_by_a_click(browser, pages):
    opened(browser, pages["plan"])
    browser.run(
        "[...document.querySelectorAll('#quotas button.entity')].find((one) => one.textContent === 'client-id=stranger').click()"
    )
    assert browser.run("return document.activeElement.value") == "stranger"
    assert "client-id=stranger" in browser.run(ANSWER)


def test_a_table_sorts_in_both_directions_and_indicates_the_direction(browser, pages):
    opened(browser, pages["plan"])
    press = "document.querySelectorAll('#quotas thead button')[3].click(); return document.querySelectorAll('#quotas thead th')[3].ariaSort"
    values = "return [...document.querySelectorAll('#quotas tbody.rows tr')].map((one) => one.cells[3].innerText.split('\\n')[0])"
    assert browser.run(press) == "ascending"
    up = browser.run(values)
    assert up[:2] == ["77 B/s", "4 KiB/s"]
    assert browser.run(press) == "descending"
    assert browser.run(values) == up[::-1]
    assert (
        browser.run(
            "return document.querySelectorAll('[aria-sort=ascending], [aria-sort=descending]').length"
        )
        == 1
    )


def test_ten_thousand_entities_are_shown_in_few_rows_with_quick_responses(browser, pages):
    opened(browser, pages["many"])
    assert browser.run(STATUS) == "10,000 entities"
    assert browser.run("return document.querySelector('#quotas table').ariaRowCount") == "10001"
    assert 10 < browser.run(ROWS) < 80
    assert browser.run("return document.querySelectorAll('*').length") < 8_000
    first = browser.run(FIRST)
    browser.run(
        "const one = document.querySelector('#quotas .window'); one.scrollTop = one.scrollHeight"
    )
    browser.wait_for(
        "return [...document.querySelectorAll('#quotas tbody.rows tr')].at(-1).ariaRowIndex === '10001'"
    )
    assert browser.run(FIRST) != first
    assert browser.run(ROWS) < 80
    browser.run(TYPE, "#quotas input[type=search]", "user-0012 etl")
    process = browser.run(STATUS)
    assert process.endswith("of 10,000 entities")
    assert 0 < int(process.split()[0]) < 10
    assert browser.run("return document.querySelector('#quotas .window').scrollTop") == 0
    browser.run(TYPE, "#quotas input[type=search]", "nobody has this name")
    assert browser.run(STATUS) == "0 of 10,000 entities"
    assert "Nothing fits" in browser.run(FIRST)
    browser.run(TYPE, "#quotas input[type=search]", "")
    browser.run("document.querySelectorAll('#quotas thead button')[3].click()")
    assert 10 < browser.run(ROWS) < 80
    browser.run(TYPE, ".ask input", "user-00120")
    assert "Comes from" in browser.run(ANSWER)
    # Not a timed test: a hang of several seconds in one response would be a fault of the implementation.
    slow = browser.run(
        "return performance.getEntriesByType('measure').filter((one) => one.duration > 5000).map((one) => one.name)"
    )
    assert slow == []
    assert {"kquota-ready", "kquota-table", "kquota-lookup"} == set(
        browser.run(
            "return [...new Set(performance.getEntriesByType('measure').map((one) => one.name))]"
        )
    )


def test_a_selection_shows_only_its_rows(browser, pages):
    opened(browser, pages["many"])
    options = browser.run(
        "return [...document.querySelectorAll('#quotas select')].map((one) => [...one.options].map((two) => two.text))"
    )
    whose = next(option for option in options if "ours" in option)
    browser.run(
        TYPE,
        f"#quotas label:nth-of-type({options.index(whose) + 2}) select",
        str(whose.index("drifted")),
    )
    assert browser.run(STATUS) == "25 of 10,000 entities"
    assert "drifted" in browser.run(FIRST)


def test_several_clusters_are_selected_one_at_a_time(browser, pages):
    opened(browser, pages["two"])
    assert browser.run("return document.querySelectorAll('main section').length") > 5
    browser.run(TYPE, "#header select", "1")
    assert "window.broken" in browser.run("return document.querySelector('h1').textContent")
    assert browser.run("return document.activeElement.tagName") == "SELECT"
    assert browser.run("return window.broken ?? null") is None


def test_every_control_is_reachable_by_keyboard(browser, pages):
    opened(browser, pages["many"])
    focus = "const one = document.activeElement; return one.className + '|' + one.tagName + '|' + (one.ariaLabel ?? one.textContent)"
    tab, enter, down, end, escape = "\ue004", "\ue007", "\ue015", "\ue010", "\ue00c"
    browser.keys(tab)
    assert browser.run(focus) == "skip|A|Skip to the content"
    browser.keys(enter)
    assert browser.run("return document.activeElement.id") == "main"
    stops = []
    for _ in range(120):
        browser.keys(tab)
        stops.append(browser.run(focus))
        if "Rows of Current quotas" in stops[-1]:
            break
    assert "Rows of Current quotas" in stops[-1], stops
    assert any("INPUT" in stop for stop in stops)
    while not browser.run(focus).startswith("entity|"):
        browser.keys(tab)
    start = browser.run(focus)
    browser.keys(down)
    assert browser.run(focus) != start
    browser.keys(end)
    assert browser.run("return document.activeElement.closest('tr').ariaRowIndex") == "10001"
    assert browser.run(ROWS) < 80
    browser.keys(enter)
    assert browser.run("return document.activeElement.tagName") == "INPUT"
    assert "Comes from" in browser.run(ANSWER)
    browser.keys(escape)
    assert browser.logs()[0] == []


def test_the_tab_key_passes_a_table_of_ten_thousand_rows_in_few_steps(browser, pages):
    opened(browser, pages["many"])
    browser.run("document.querySelector('#quotas .window').focus()")
    steps = 0
    while browser.run("return document.activeElement.closest('#quotas') !== null"):
        browser.keys("\ue004")
        steps += 1
        assert steps < 15
    assert steps > 3


def test_the_focused_element_is_visible(browser, pages):
    opened(browser, pages["plan"])
    browser.keys("\ue004", "\ue004")
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert (
        browser.run("return parseFloat(getComputedStyle(document.activeElement).outlineWidth)") >= 2
    )


GROUND = "return getComputedStyle(document.body).backgroundColor"


def test_light_and_dark_follow_the_system_until_the_user_selects_one(browser, pages):
    opened(browser, pages["plan"])
    browser.run("localStorage.clear()")
    browser.emulate(scheme="light")
    browser.open(pages["plan"])
    light = browser.run(GROUND)
    browser.emulate(scheme="dark")
    dark = browser.run(GROUND)
    assert light != dark
    choose = "[...document.querySelectorAll('.choice button')].find((one) => one.textContent === arguments[0]).click()"
    browser.run(choose, "Light")
    assert browser.run(GROUND) == light
    assert (
        browser.run("return document.querySelector('.choice [aria-pressed=true]').textContent")
        == "Light"
    )
    browser.emulate(scheme="light")
    browser.run(choose, "Dark")
    assert browser.run(GROUND) == dark
    browser.run(choose, "System")
    assert browser.run(GROUND) == light


def test_nothing_moves_with_reduced_motion(browser, pages):
    opened(browser, pages["plan"])
    style = "return [getComputedStyle(document.documentElement).scrollBehavior, getComputedStyle(document.querySelector('.button')).transitionDuration]"
    browser.emulate(motion="no-preference")
    assert browser.run(style)[0] == "smooth"
    browser.emulate(motion="reduce")
    assert browser.run(style) == ["auto", "0s"]


def test_the_print_layout_has_open_tables_in_light_colours_and_no_controls(browser, pages):
    opened(browser, pages["many"])
    browser.emulate(scheme="dark", media="print")
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.run(GROUND) == "rgb(255, 255, 255)"
    assert browser.run(ROWS) == 2000
    assert "first 2,000 are printed" in browser.run(STATUS)
    for hidden in ("#sections", ".tools", ".controls label", ".skip"):
        assert (
            browser.run(f"return getComputedStyle(document.querySelector('{hidden}')).display")
            == "none"
        )
    assert (
        browser.run("return getComputedStyle(document.querySelector('#quotas .window')).overflow")
        == "visible"
    )
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run(ROWS) < 80
    assert browser.run(STATUS) == "10,000 entities"
    opened(browser, pages["plan"])
    browser.emulate(media="print")
    narrow = {"width": 720, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.command("Emulation.setDeviceMetricsOverride", narrow)
    wide = "return [...document.querySelectorAll('table')].filter((one) => one.scrollWidth > document.documentElement.clientWidth).length"
    assert browser.run(wide) == 0
    browser.command("Emulation.clearDeviceMetricsOverride", {})
    assert browser.command("Page.printToPDF", {"printBackground": True})["data"]


@pytest.mark.parametrize(
    ("name", "scheme"),
    [*itertools.product(["plan", "report", "hostile"], ["light", "dark"]), ("many", "light")],
)
def test_the_accessibility_checker_reports_nothing(browser, pages, name, scheme):
    opened(browser, pages[name])
    browser.run("localStorage.clear()")
    browser.emulate(scheme=scheme, motion="reduce")
    browser.open(pages[name])
    assert axe.violations(browser) == []
    browser.run("document.querySelector('button.entity').click()")
    browser.run("document.querySelector('thead button').click()")
    assert axe.violations(browser) == []


# ---- the same answer as Python's --------------------------------------------------------------

NAMES = st.sampled_from(
    [None, "", "alice", "app", "etl-1", "web", "<default>", "x", "zoë 日本", "somebody"]
)
PRINCIPALS = st.builds(
    Principal, user=NAMES, client_id=NAMES, ip=st.sampled_from([None, "10.0.0.1", "10.0.0.9"])
)
RESOLVE = """
const [cases] = arguments;
return cases.map(([rows, changes, clients, unranked]) => {
  const before = kquota.indexOf(rows);
  const after = kquota.changed(before, changes);
  return [before, after].map((index) => clients.map((client) => kquota.resolve(index, client).map((limit) => (
    { ...limit, known: kquota.isKnown(limit, kquota.unrankedFor(unranked, client, limit.column)) }
  ))));
});
"""


def slots_of(subject) -> list:
    return [0 if slot is False else slot for slot in subject]


def expected(state: QuotaState, principal: Principal) -> list:
    return [
        {
            "column": COLUMN_OF[limit.key],
            "winner": None
            if limit.source is None
            else {"slots": slots_of(limit.source), "level": limit.level, "value": limit.value},
            "known": limit.is_known,
            "bucket": list(limit.bucket),
            "lost": [
                {"slots": slots_of(lost.entity), "level": lost.level, "value": lost.value}
                for lost in limit.overridden
            ],
        }
        for limit in resolve(state, principal).effective
    ]


@settings(max_examples=count_examples(20))
@given(
    cases=st.lists(
        st.tuples(
            strategies.states(max_size=20),
            strategies.states(max_size=4),
            st.lists(PRINCIPALS, min_size=1, max_size=8),
            strategies.foreign_entities,
        ),
        min_size=1,
        max_size=15,
    )
)
def test_the_page_resolves_every_client_like_python(browser, pages, cases):
    if browser.run("return window.kquota === undefined"):
        opened(browser, pages["plan"])
    given_cases, answers = [], []
    for kafka_state, other_state, principals, foreign in cases:
        state = replace(kafka_state, foreign_entities=foreign)
        writes = [
            (subject, key, None if state.value(subject, key) == value else value)
            for subject, key, value in other_state.pairs()
        ]
        later = state.with_values(writes)
        given_cases.append(
            [
                [
                    [slots_of(subject), [value_json(limit) for limit in limits]]
                    for subject, limits in state.limits.items()
                ],
                [[slots_of(subject), COLUMN_OF[key], value] for subject, key, value in writes],
                [
                    {"user": principal.user, "clientId": principal.client_id, "ip": principal.ip}
                    for principal in principals
                ],
                [
                    ["", list(parts), [value_json(dict(values).get(key)) for key in COLUMNS]]
                    for parts, values in foreign
                ],
            ]
        )
        answers.append([[expected(side, who) for who in principals] for side in (state, later)])
    assert browser.run(RESOLVE, given_cases) == answers


def test_a_client_of_a_foreign_limit_has_an_unknown_limit_and_any_other_client_has_its_limit(
    browser, tmp_path
):
    live = QuotaState(
        limits={entity(client_id=DEFAULT): limits_of({COLUMNS[0]: 5000.0})},
        foreign_entities=(((("client-id-prefix", "etl-"),), ((str(COLUMNS[0]), 7000.0),)),),
    )
    (tmp_path / "page.html").write_text(
        page(looked(merge([]), OwnershipRecords(cluster_id="c"), live))
    )
    opened(browser, tmp_path / "page.html")
    for client_id, limit in (("etl-1", "unknown"), ("web", "5 kB/s5000")):
        browser.run(TYPE, ".ask label:nth-of-type(2) input", client_id)
        cells = "return [...document.querySelectorAll('.answer tbody tr')[0].cells].map((cell) => cell.textContent)"
        texts = browser.run(cells)
        assert texts[1] == limit
        assert ("client-id-prefix=etl-" in texts[2]) == (client_id == "etl-1")


def test_the_sharing_of_a_limit_is_described_as_by_resolve(browser, tmp_path):
    state = QuotaState(
        limits={
            entity(user="alice"): limits_of({COLUMNS[0]: 5000.0}),
            entity(user=DEFAULT, client_id=DEFAULT): limits_of({COLUMNS[1]: 5000.0}),
            entity(client_id="app"): limits_of({COLUMNS[2]: 5.0}),
            entity(ip=DEFAULT): limits_of({COLUMNS[4]: 5.0}),
        }
    )
    (tmp_path / "page.html").write_text(
        page(looked(merge([]), OwnershipRecords(cluster_id="c"), state))
    )
    opened(browser, tmp_path / "page.html")
    for at, text in enumerate(("alice", "app", "10.0.0.1"), start=1):
        browser.run(TYPE, f".ask label:nth-of-type({at}) input", text)
    process = browser.run(
        "return [...document.querySelectorAll('.answer tbody tr')].map((one) => one.cells[3].textContent)"
    )
    principal = Principal(user="alice", client_id="app", ip="10.0.0.1")
    buckets = [_bucket(limit) for limit in resolve(state, principal).effective]
    assert process == [bucket if bucket != "-" else "\u2013" for bucket in buckets]
