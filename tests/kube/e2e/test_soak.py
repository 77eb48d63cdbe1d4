"""A short soak: random operations and faults from a fixed seed; the long ones are `make soak`."""

import pytest

from tests.kube.e2e.world import World
from tests.soak.soak import Settings, Soak

pytestmark = pytest.mark.integration


def test_random_faults_for_twelve_seconds_end_in_the_declared_state(world: World) -> None:
    Soak(world, Settings(seed=4, seconds=12.0, documents=40, every=2.0)).run()
