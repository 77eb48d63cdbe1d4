"""Runs with as many overrides and open intents as limits: their time must grow with the number, not with its square."""

from collections.abc import Iterator

import pytest

from tests.limits.process_limits import Prepared

PAIRS = 10_000
PROGRAM = f"""
from reconciler.quota.entity import entity
from reconciler.quota.ownership import (Intent, IntentStarted, OverrideSet, Owner, OwnershipRecords)
from reconciler.quota.overrides import Override
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.reconcile import rollback_orders
from tests.reconcile.scenarios import RATE, World, documents

USERS = [entity(user=f"u{{number}}") for number in range({PAIRS})]

def intents(at):
    return [
        IntentStarted(
            entity=user, key=RATE, intent=Intent(value=2.0, owner=Owner(document=f"team/{{user}}"), at=at)
        )
        for user in USERS
    ]

def overrides(until):
    return [
        OverrideSet(
            override=Override(
                entity=user, key=RATE, value=2.0, until=until, author="me", reason="x", before=1.0,
                declared=1.0,
            )
        )
        for user in USERS
    ]

def main(case):
    world = World({{user: {{RATE: 2.0}} for user in USERS}})
    now = world.cluster.clock.now()
    changes = intents(now - 1.0)
    if case == "ends":
        changes = overrides(now - 1.0) + changes
    records = OwnershipRecords(cluster_id=world.cluster.cluster_id).with_changes(changes)
    world = World({{user: {{RATE: 2.0}} for user in USERS}}, owned=records)
    orders = {{}}
    if case == "rollback":
        undone = [
            QuotaChange(entity=user, key=RATE, before=1.0, after=2.0, cause=Cause.SPEC)
            for user in USERS
        ]
        orders["overrides"] = rollback_orders(undone, now=now, principal="me", reason="x")
    plan = world.plan(documents({{user: {{RATE: 1.0}} for user in USERS}}), **orders)
    print(len(plan.plan.changes))
"""


@pytest.fixture(scope="module")
def program() -> Iterator[Prepared]:
    with Prepared(PROGRAM) as prepared:
        yield prepared


@pytest.mark.parametrize("case", ["rollback", "ends", "restart"])
def test_a_plan_with_ten_thousand_open_intents_ends_in_time(program: Prepared, case: str) -> None:
    run = program.run(case)
    assert (run.exit_code, run.stdout) == (0, f"{PAIRS}\n"), run.stderr[-2000:]
