"""The behaviour of a run without special options."""

from reconciler.quota.policy import DriftMode, Policy
from reconciler.reconcile import ReconcileOptions, ValidationMode
from tests.reconcile.scenarios import World


def test_the_default_options_are_the_safe_ones():
    orders = ReconcileOptions()
    assert orders.rules.policy is Policy.UPSERT
    assert orders.rules.drift is DriftMode.WARN
    assert not orders.rules.sync_confirmed
    assert orders.guards.protect_defaults
    assert orders.validation is ValidationMode.AUTO
    assert not orders.pace


def test_progress_reporting_is_optional():
    world = World()
    ports = type(world.ports)(
        store=world.cluster, inventory=world.inventory, clock=world.cluster.clock
    )
    ports.progress("apply", 1, 2)
