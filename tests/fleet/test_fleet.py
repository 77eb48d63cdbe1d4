"""The synthetic fleet has the demand that it says: the sizing of limits is measured against it."""

import numpy as np
import pytest

from tests.fleet import demand
from tests.fleet.spec import Fleet, What, events

FLEET = Fleet(clusters=2, brokers=3, groups=8, days=2, step_ms=300_000)


def test_every_kind_of_event_occurs() -> None:
    assert {event.what for event in events(FLEET, 0)} == set(What)


def test_demand_is_served_completely_or_waits() -> None:
    """Demand equals served units plus backlog, series by series."""
    day = next(iter(demand.days(FLEET, 0)))
    wanted_units = (day.demand * FLEET.step_ms // 1000).sum(axis=-1)
    passed = (day.served * FLEET.step_ms // 1000).sum(axis=-1)
    waiting = day.waits_ms[..., -1] * day.limit[:, :, None, -1] // 1000
    assert np.all(np.abs(wanted_units - passed - waiting) <= wanted_units // 1_000 + 500_000)
    free = day.limit[:, :, None, :] == 0
    assert np.all((day.served <= day.limit[:, :, None, :]) | free)


@pytest.mark.parametrize("wrong", [{"clusters": 0}, {"step_ms": 7_000}, {"step_ms": 5_000}])
def test_an_impossible_fleet_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="a fleet has"):
        Fleet(**wrong)
