"""The document of several plans: written, and read back strictly."""

import json

import pytest

from reconciler.codecs.fleet_plans import plans_document, read_plans
from reconciler.codecs.plan import saved_plan
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


def document() -> dict[str, object]:
    return plans_document([("eu", saved_plan(sample()))], ROWS)


def test_rows_and_plans_are_read_back_as_they_were_written():
    rows, (plan,) = read_plans(dump(document()), location="plans.json")
    assert list(rows) == ROWS
    assert plan.cluster == "eu"
    assert plan.preview.digest == sample().digest
    assert plan.simulation is None


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("summary", 0, "result"), "fine", "summary[0].result"),
        (("summary", 0, "changes"), "3", "summary[0].changes"),
        (("summary", 0, "more"), 1, "summary[0]"),
        (("plans", 0, "plan"), [], "plans[0].plan"),
        (("plans", 0, "plan", "digest"), "edited", "digest"),
        (("more",), 1, "more"),
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
    assert place in str(caught.value) + str(caught.value.key)
