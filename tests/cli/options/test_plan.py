"""A selection is read back from its words as it was typed."""

import pytest

from reconciler.app.requests import PlanRequest
from reconciler.cli.options.plan import saved_request
from reconciler.quota.entity import DEFAULT, entity
from tests.quota.strategies import ENTITIES

NOTHING = PlanRequest()
OF_EACH_RUN = {"paths", "validate", "take_over", "pace", "no_inventory"}
VALUES = {
    "policy": "Observe",
    "confirm_sync": "-id",
    "only": (*ENTITIES, entity(user="a,b=\n\\", client_id=DEFAULT), entity(user="<default>")),
    "max_removals": 0,
    "max_removed_percent": 12.5,
    "max_change_factor": 1e6,
}


@pytest.mark.parametrize("name", sorted(set(PlanRequest.__struct_fields__) - OF_EACH_RUN))
def test_each_option_is_read_back(name):
    options = {name: VALUES.get(name, True)}
    typed = PlanRequest(paths=("-", "--yes"), no_inventory=True, **options)
    assert (
        saved_request(typed.selection, NOTHING, location="plan.json", command="", is_asked=True)
        == typed
    )


@pytest.mark.parametrize("option", [{"validate": "none"}, {"take_over": True}, {"pace": True}])
def test_what_validates_and_records_the_plan_is_typed_for_each_run(option):
    typed = PlanRequest(**option)
    assert typed.selection == ()
    assert saved_request((), typed, location="plan.json", command="", is_asked=True) == typed
