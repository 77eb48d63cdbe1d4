"""The content of a page about clusters: what Python computed, section by section."""

import re

import pytest
from msgspec.structs import replace

from reconciler.app.html_page import page_files
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.page.cluster import ClusterPage
from tests.render.page_reader import read_page
from tests.render.pages import large_look, look, looked, page, recorded
from tests.render.previews import RATE, empty, golden


@pytest.mark.golden
def test_a_page_equals_the_golden_file():
    _, _, text = page().replace(page_files().script, "").partition("<body>")
    golden("page.html", re.sub(r"(?=<(?:section|tr|td|p|dl|div|footer|nav|header)\b)", "\n", text))


def test_a_change_shows_both_values_its_effect_its_cause_and_its_place():
    _, *rows = read_page(page()).sections["changes"]
    (row,) = [row for row in rows if row[4][0].startswith("Takeover")]
    assert row == [
        ["user=alice", "producer_byte_rate"],
        ["5000000 (5 MB/s)"],
        ["10485760 (10 MiB/s)"],
        ["loosened x2.1"],
        [
            "Takeover: declared; another value is live, without an ownership record",
            "has no ownership record",
        ],
        ["quotas/10.yaml:8"],
    ]


def test_the_limits_of_a_client_are_shown_before_and_after_the_plan_with_those_that_they_override():
    live = QuotaState(
        limits={
            entity(user="alice"): limits_of({RATE: 5000.0}),
            entity(user="bob"): limits_of({RATE: 7000.0}),
            entity(user=DEFAULT): limits_of({RATE: 4000.0, Key.CONSUMER_BYTE_RATE: 9.0}),
            entity(ip="10.0.0.1"): limits_of({COLUMNS[4]: 5.0}),
        }
    )
    declared = Declaration(
        document="team/a",
        entity=entity(user="alice"),
        limits=limits_of({RATE: 1000.0}),
        path="a.yaml",
        line=1,
    )
    reading = read_page(page(looked(merge([declared]), OwnershipRecords(cluster_id="c"), live)))
    heads, *rows = reading.sections["clients"]
    assert heads == [["Client and key"], ["Now"], ["After this plan"], ["Effect"], ["Why"]]
    lost = "instead of user=<default> 4000 (4 kB/s)"
    shared = "shared by all client-ids of"
    assert rows == [
        [
            ["user=alice", "producer_byte_rate"],
            ["5000 (5 kB/s)"],
            ["1000 (1 kB/s)"],
            ["tightened -80 %"],
            ["by user=alice", f"{shared} alice; {lost}"],
        ],
        [
            ["ip=10.0.0.1", "connection_creation_rate"],
            ["5/s"],
            ["the same"],
            [],
            ["by ip=10.0.0.1", "shared by all connections of 10.0.0.1"],
        ],
        *(
            row
            for user, at in (("alice", 0), ("bob", 1))
            for row in (
                [
                    [f"user={user}", "producer_byte_rate"],
                    ["7000 (7 kB/s)"],
                    ["the same"],
                    [],
                    [f"by user={user}", f"{shared} {user}; {lost}"],
                ],
                [
                    [f"user={user}", "consumer_byte_rate"],
                    ["9 B/s"],
                    ["the same"],
                    [],
                    ["by user=<default>", f"{shared} {user}"],
                ],
            )[1 - at :]
        ),
    ]


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


def test_an_empty_plan_gives_a_page():
    reading = read_page(page(replace(look(), preview=empty())))
    assert "changes" not in reading.sections
    assert any("Nothing to do" in text for text in reading.all_texts("p"))


def test_without_records_no_quota_is_shown_as_owned():
    preview = replace(empty(), plan=replace(empty().plan, findings=()))
    reading = read_page(page(ClusterPage(name="x", preview=preview, live=look().live)))
    assert {cell[0] for cell in reading.column("quotas", "State")} == {"not ours"}


def test_recorded_use_is_in_its_own_section_and_its_refusals_among_the_obstacles():
    reading = read_page(page(replace(look(), recorded=recorded("alice", "bob"))))
    assert reading.cells("recorded-use", "user=bob")["Recorded use"] == [
        "throttled 10 min a day (bob)"
    ]
    assert reading.cells("recorded-use", "user=bob")["Verdict"] == ["not known"]
    notes = " ".join(reading.all_texts("p"))
    assert "alice will be worse off" in notes
    assert "3 rows of other brokers not listed" in notes
    assert reading.column("use-refused", "What") == [["user=alice: worst delay 3 min"]]


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
