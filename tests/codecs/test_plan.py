"""The JSON document of a plan: three separate facts, sections, places, and equal bytes for equal facts."""

import json

import pytest
from msgspec.structs import replace

from reconciler.codecs.plan import plan_document, saved_plan
from reconciler.render.cause_text import SECTIONS, counts
from reconciler.render.json_values import dump
from tests.render.previews import empty, golden, sample


def plan_json(preview=None) -> dict:
    return json.loads(dump(plan_document(preview or sample())))


@pytest.mark.golden
def test_the_document_of_a_plan_has_the_published_form():
    golden("plan.json", dump(plan_document(sample())))
    golden("saved_plan.json", dump(saved_plan(sample())))


def test_a_printed_change_names_what_refuses_it():
    withheld = [row["withheld"] for row in plan_json()["changes"]]
    assert withheld == [[], [], [], ["validation"], ["maxChangeFactor"], ["protectDefaults"]]


def test_applyable_complete_and_errored_are_separate_fields():
    def facts(preview):
        document = plan_json(preview)
        return document["applyable"], document["complete"], document["errored"]

    full = sample()
    assert facts(full) == (False, True, True)
    assert facts(replace(full, violations=())) == (True, True, True)
    assert facts(replace(full, plan=replace(full.plan, complete=False))) == (False, False, True)
    assert facts(empty()) == (False, True, False)


def test_each_change_has_an_array_of_actions_a_cause_and_its_place():
    changes = plan_json()["changes"]
    (change,) = [
        row for row in changes if row["text"] == "user=alice" and row["key"] == "producer_byte_rate"
    ]
    assert change["actions"] == ["update"]
    assert change["cause"] == "Takeover"
    assert (change["before"], change["after"]) == (5000000, 10485760)
    assert (change["file"], change["line"], change["document"]) == (
        "quotas/10.yaml",
        8,
        "team/alice",
    )
    assert change["effect"]["direction"] == "loosened"
    (gone,) = [row for row in changes if row["text"] == "user=gone"]
    assert (gone["actions"], gone["file"], gone["owner"]["document"]) == (
        ["remove"],
        None,
        "team/gone",
    )
    assert gone["record"] == {"value": 5000, "document": "team/gone"}


def test_every_finding_is_in_exactly_one_section():
    document = plan_json()
    names = [kind.name for kind in SECTIONS]
    assert sum(len(document[name]) for name in names) == len(sample().plan.findings)
    assert {name: len(document[name]) for name in names if document[name]} == {
        "drift": 1,
        "overrides": 1,
        "recorded": 1,
        "released": 1,
        "unmanaged": 1,
    }
    assert document["drift"][0]["since"] == "2025-11-21T10:00:00Z"
    assert [row["text"] for row in document["takeover"]] == ["user=alice"]


def test_counts_match_the_rows():
    document = plan_json()
    numbers = document["counts"]
    assert numbers == dict(counts(sample()))
    assert numbers["create"] + numbers["update"] + numbers["remove"] == len(document["changes"])


def test_the_source_of_the_verdict_is_included():
    assert plan_json()["validation"]["source"] == "broker"
    assert plan_json()["validation"]["refused"][0]["code"] == 42


def test_a_snapshot_shows_its_age():
    document = plan_json(replace(sample(), snapshot_at=sample().created_at - 60))
    assert document["snapshotTakenAt"] == "2025-11-21T11:59:00Z"


def test_equal_previews_are_equal_bytes():
    assert dump(plan_document(sample())) == dump(plan_document(sample()))
