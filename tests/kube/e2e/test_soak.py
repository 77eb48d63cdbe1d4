"""A short soak: random operations and faults from a fixed seed; the long ones are `make soak`."""

import pytest

from tests.kube.e2e.world import World
from tests.soak.soak import Settings, Soak

pytestmark = pytest.mark.integration


def test_random_faults_for_half_a_minute_end_as_declared(world: World) -> None:
    Soak(world, Settings(seed=4, seconds=30.0, documents=40, every=4.0)).run()
