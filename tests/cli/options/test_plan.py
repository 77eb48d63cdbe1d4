"""A selection is read back from its words as it was typed."""

import pytest
from msgspec.structs import replace

from reconciler.app.requests import PlanLimits, RecordSource
from reconciler.cli.options.plan import Selection, saved_selection
from reconciler.quota.entity import DEFAULT, entity
from tests.quota.strategies import ENTITIES

NOTHING = Selection(paths=(), limits=PlanLimits(), sources=RecordSource())
VALUES = {
    "policy": "Observe",
    "confirm_sync": "-id",
    "only": (*ENTITIES, entity(user="a,b=\n\\", client_id=DEFAULT), entity(user="<default>")),
    "max_removals": 0,
    "max_removed_percent": 12.5,
    "max_change_factor": 1e6,
}


@pytest.mark.parametrize("name", sorted(set(PlanLimits.__struct_fields__) - {"validate"}))
def test_each_option_is_read_back(name):
    limits = replace(PlanLimits(), **{name: VALUES.get(name, True)})
    typed = Selection(paths=("-", "--yes"), limits=limits, sources=RecordSource(no_inventory=True))
    assert (
        saved_selection(typed.words, NOTHING, location="plan.json", command="", is_asked=True)
        == typed
    )


def test_what_validates_the_plan_is_typed_for_each_run():
    typed = replace(NOTHING, limits=PlanLimits(validate="none"))
    assert typed.words == ()
    assert saved_selection((), typed, location="plan.json", command="", is_asked=True) == typed
