"""The document of several plans: written, and read back strictly."""

import json

import pytest

from reconciler.codecs.fleet_plans import PlansFile, plans_document, read_plans, saved_plans
from reconciler.codecs.plan import plan_document, saved_plan
from reconciler.errors import ConfigError
from reconciler.render.fleet_summary import FleetOutcome, FleetRow
from reconciler.render.json_values import dump
from tests.render.previews import sample

ROWS = [
    FleetRow(
        cluster="eu", outcome=FleetOutcome.REFUSED, changes=3, drift=0, refused=1, seconds=0.0
    ),
    FleetRow(cluster="lost", outcome=FleetOutcome.UNREACHABLE, seconds=0.0),
]


def document() -> PlansFile:
    return saved_plans([("eu", saved_plan(sample()))], ROWS)


def test_rows_and_plans_are_read_back_as_they_were_written():
    text = dump(document())
    for layout in (text, json.dumps(json.loads(text))):
        rows, (plan,) = read_plans(layout, location="plans.json")
        assert list(rows) == ROWS
        assert plan.cluster == "eu"
        assert saved_plan(plan.preview) == saved_plan(sample())
        assert plan.simulation is None


def test_printed_plans_are_not_read():
    with pytest.raises(ConfigError, match="printed with --format json"):
        read_plans(
            dump(plans_document([("eu", plan_document(sample()))], ROWS)), location="plans.json"
        )


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("summary", 0, "result"), "fine", "summary[0].result should be another word than 'fine'"),
        (("summary", 0, "changes"), "3", "summary[0].changes should be int | null, not str"),
        (("summary", 0, "more"), 1, "summary[0] should be an object without the unknown field"),
        (("plans", 0, "plan"), [], "plans[0].plan should be object, not array"),
        (("plans", 0, "plan", "digest"), "edited", "its changes and its digest do not match"),
        (("plans", 0, "plan", "counts", "owned"), None, "plans[0].plan.counts.owned should be int"),
        (("more",), 1, "the document should be an object without the unknown field 'more'"),
    ],
)
def test_an_edited_document_is_refused_at_its_place(path, value, place):
    edited_plans = json.loads(dump(document()))
    at = edited_plans
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(ConfigError) as caught:
        read_plans(dump(edited_plans), location="plans.json")
    assert f"plans.json: {place}" in str(caught.value)
