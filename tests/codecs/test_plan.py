"""The JSON document of a plan: its published form, and each finding in exactly one section."""

import json

import pytest

from reconciler.codecs.plan import plan_document, saved_plan
from reconciler.render.cause_text import SECTIONS
from reconciler.render.json_values import dump
from tests.render.previews import golden, sample


def plan_json(preview=None) -> dict:
    return json.loads(dump(plan_document(preview or sample())))


@pytest.mark.golden
def test_the_document_of_a_plan_has_the_published_form():
    golden("plan.json", dump(plan_document(sample())))
    golden("saved_plan.json", dump(saved_plan(sample())))


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
