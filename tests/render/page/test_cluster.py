"""The content of a page about clusters: what Python computed, section by section."""

import re

import pytest
from msgspec.structs import replace

from reconciler.app.html_page import page_files
from reconciler.render.page.cluster import ClusterPage
from tests.render.page_reader import read_page
from tests.render.pages import large_look, look, page, recorded
from tests.render.previews import empty, golden


@pytest.mark.golden
def test_a_page_equals_the_golden_file():
    _, _, text = page().replace(page_files().script, "").partition("<body>")
    golden("page.html", re.sub(r"(?=<(?:section|tr|td|p|dl|div|footer|nav|header)\b)", "\n", text))


def test_the_verdict_names_the_worst_obstacle():
    def verdict(cluster: ClusterPage) -> str:
        return read_page(page(cluster)).all_texts("strong")[0]

    refused = look()
    accepted = replace(
        refused.preview, verdict=replace(refused.preview.verdict, rejections={}), violations=()
    )
    assert verdict(refused) == "The broker would refuse (1)"
    only_guards = replace(accepted, violations=refused.preview.violations)
    assert verdict(replace(refused, preview=only_guards)) == "Refused by guards (2)"
    assert verdict(replace(refused, preview=accepted)) == "Can be applied"
    by_use = replace(refused, preview=accepted, recorded=recorded("alice", "bob"))
    assert verdict(by_use) == "Refused by the recorded-use policy (1)"
    assert verdict(replace(refused, preview=empty())) == "In sync"


def test_without_records_no_quota_is_shown_as_owned():
    preview = replace(empty(), plan=replace(empty().plan, findings=()))
    reading = read_page(page(ClusterPage(name="x", preview=preview, live=look().live)))
    assert {cell[0] for cell in reading.column("quotas", "State")} == {"not ours"}


def test_a_large_plan_is_cut_and_says_so():
    cluster = large_look(3_000)
    alone, beside = read_page(page(cluster)), read_page(page(cluster, cluster))
    assert len(alone.sections["quotas"]) == 2_001
    assert len(beside.sections["1-quotas"]) == len(beside.sections["2-quotas"]) == 1_001
    assert any(
        text.startswith("and 1,000 more rows, which kquota plan --format json")
        for text in alone.all_texts("p")
    )
    assert alone.sections["clients"][1][3] != []  # those whose limit changes come first
