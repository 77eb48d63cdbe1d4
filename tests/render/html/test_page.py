"""The page as text: well-formed, self-contained, and all names are in the block of JSON."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from reconciler.app.html_page import page_files
from reconciler.evidence.render import report_page
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.precedence import Principal
from reconciler.render.html.facts import ClusterPage
from reconciler.render.html.frame import FRAME
from reconciler.render.html.history import MOST_PAST_CHANGES, ChangeHistory
from reconciler.render.html.page import SCRIPTS, STYLES, TEMPLATE, page_document
from reconciler.render.lookup_table import PageLookup
from tests.render.pages import HOSTILE, PAST, hostile_look, look, page
from tests.render.previews import ALICE, ALICE_SHOP, EVIL, NOW, RATE, empty, golden

VOID = {"meta", "link"}


class Reading(HTMLParser):
    """Parses tags, which must be balanced; keeps the text of scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.attributes: list[tuple[str, str, str | None]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1]][-1] += data


def read(text: str) -> Reading:
    reading = Reading()
    reading.feed(text)
    reading.close()
    assert reading.open == []
    return reading


def facts_of(text: str) -> dict:
    return json.loads(read(text).texts["script"][0])


@pytest.mark.parametrize(
    "new_page", [page(), page(look("a"), look("b"), kind="report"), page(hostile_look())]
)
def test_a_page_is_well_formed_and_contains_one_block_of_facts_and_one_script(new_page):
    reading = read(new_page)
    assert reading.seen.count("script") == 2
    assert reading.seen.count("style") == 1
    assert ("html", "lang", "en") in reading.attributes
    assert len(reading.texts["title"]) == 1
    assert new_page.startswith("<!DOCTYPE html>\n")
    assert "{{" not in re.sub(r"(?s)<script.*?</script>", "", new_page)


def test_a_page_loads_nothing_from_other_addresses():
    reading = read(page())
    addresses = [
        value
        for _, name, value in reading.attributes
        if name in {"src", "href", "action", "srcset"}
    ]
    assert set(addresses) == {"data:,", "#main"}
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


def test_the_policy_allows_the_script_and_the_style_of_the_page_only():
    reading = read(page())
    (policy,) = [
        value
        for tag, name, value in reading.attributes
        if tag == "meta" and name == "content" and "default-src" in (value or "")
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for kind, text in (
        ("script-src", reading.texts["script"][1]),
        ("style-src", reading.texts["style"][0]),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"


def test_names_cannot_break_out_of_the_block_of_facts():
    new_page = page(hostile_look())
    block = re.search(r'(?s)<script type="application/json" id="facts">(.*?)</script>', new_page)
    assert block is not None
    assert block[1].isascii()
    assert not set("<>&\u2028\u2029") & set(block[1])
    remainder = new_page.replace(block[1], "")
    title = re.search(r"<title>(.*?)</title>", remainder)
    assert title is not None
    remainder = remainder.replace(title[1], "")
    for name in HOSTILE[:7]:
        assert name not in new_page.replace(page_files().template, "") or name == "{{script}}"
        assert name not in remainder
    assert "<" not in title[1]
    users = {row[0] for row in json.loads(block[1])["entities"]}
    assert set(HOSTILE) <= users


def test_texts_of_users_are_on_one_line_without_reordering_characters():
    for text in facts_of(page(hostile_look()))["words"]:
        assert text.isprintable()
        assert "\u202e" not in text


def test_an_unusual_name_has_its_quoted_text_and_a_plain_one_does_not():
    ledger = PageLookup()
    for subject in (ALICE, ALICE_SHOP, entity(user="<default>"), entity(user=DEFAULT), EVIL):
        ledger.entity(subject)
    rows = ledger.document()["entities"]
    assert rows[:4] == [
        ["alice", 0, 0],
        ["alice", "shop", 0],
        ["<default>", 0, 0, 'user="<default>"'],
        [None, 0, 0],
    ]
    assert rows[4][3].startswith('user="a|b`c\\u000a')


def test_repeated_values_are_stored_once():
    ledger = PageLookup()
    assert ledger.text_number("a") == ledger.text_number("a") == 0
    assert ledger.entity(ALICE) == ledger.entity(ALICE) == 0
    assert ledger.client(Principal(user="alice")) == 0
    assert ledger.client(Principal(user="alice", ip="10.0.0.1")) == 1
    assert ledger.value(RATE, 5.0) == ledger.value(RATE, 5.0) == 0
    assert ledger.value(Key.CONSUMER_BYTE_RATE, 5.0) == 1
    assert ledger.value(RATE, None) is None
    assert ledger.value(RATE, float("nan")) == ledger.value(RATE, float("nan")) == 2
    assert ledger.value(RATE, 10485760.0) == 3
    assert ledger.document()["values"] == [
        [0, 5, "5"],
        [1, 5, "5"],
        [0, "NaN", "nan"],
        [0, 10485760, "10485760", "10 MiB/s"],
    ]


@pytest.mark.golden
def test_the_facts_of_a_page_equal_the_golden_file():
    document = page_document([look()], page="plan", made_at=NOW, tool_version="1.0")
    golden("page.json", json.dumps(document, indent=1, sort_keys=True) + "\n")


def test_equal_facts_give_equal_pages():
    assert page() == page()


def test_a_page_shows_that_limits_apply_per_broker_and_names_the_validator():
    facts = facts_of(page())
    assert "per broker" in facts["perBroker"]
    cluster = facts["clusters"][0]
    words = facts["words"]
    assert "validated by the broker" in words[cluster["headline"]]
    assert words[cluster["verdict"]] == "broker"
    hostile_facts = facts_of(page(hostile_look()))
    assert hostile_facts["words"][hostile_facts["clusters"][0]["snapshotAge"]] == "2 h"
    assert "not by the broker" in hostile_facts["words"][hostile_facts["clusters"][0]["headline"]]


def test_an_empty_plan_gives_a_page():
    facts = facts_of(page(replace(look(), preview=empty(), history=None)))
    cluster = facts["clusters"][0]
    assert (cluster["changes"], cluster["affected"], cluster["history"]) == ([], [], None)


def test_history_contains_the_newest_entries_and_the_number_of_omitted_ones():
    history = ChangeHistory(entries=(PAST,), left_out=7)
    facts = facts_of(page(replace(look(), history=history)))
    assert facts["clusters"][0]["historyLeftOut"] == 7
    assert MOST_PAST_CHANGES >= 1000


def test_without_records_no_quota_is_shown_as_owned():
    facts = facts_of(
        page(ClusterPage(name="x", preview=sample_without_findings(), live=look().live))
    )
    words = {facts["words"][row[6]] for row in facts["clusters"][0]["quotas"]}
    assert words == {"not ours"}


def sample_without_findings():
    return replace(empty(), plan=replace(empty().plan, findings=()))


def test_every_file_of_the_page_folder_is_used():
    names = {path.name for path in files("reconciler.render").joinpath("page").iterdir()}
    assert names == {FRAME, TEMPLATE, *STYLES, *SCRIPTS, *report_page.STYLES}
