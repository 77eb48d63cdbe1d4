"""Parts of a QuotaCluster that are separate values."""

import math

import pytest

from reconciler.manifest.project.cluster import Grant, from_spec
from reconciler.quota.entity import ABSENT, Entity
from reconciler.quota.grants import TenantGrant
from reconciler.quota.keys import Key
from reconciler.quota.planner.budgets import BudgetMeasure, BudgetMode


def test_a_budget_is_read_for_each_of_its_keys_in_the_order_of_the_columns() -> None:
    spec = {
        "name": "pay",
        "limits": {"requestPercentage": 50, "producerByteRate": "1.5Mi"},
        "overcommit": 1.5,
        "mode": "Refuse",
        "basis": "Observed",
        "namespaces": ["payments"],
        "entities": [{"user": {"prefix": "pay-"}}],
        "assumedClients": 7,
    }
    first, second = from_spec("prod", {"bootstrapServers": "a:1", "budgets": [spec]}).guards.budgets
    assert (first.key, first.amount, first.allowed) == (
        Key.PRODUCER_BYTE_RATE,
        1.5 * 2**20,
        2.25 * 2**20,
    )
    assert (second.key, second.amount) == (Key.REQUEST_PERCENTAGE, 50.0)
    assert (first.mode, first.basis) == (BudgetMode.REFUSE, BudgetMeasure.OBSERVED)
    assert (first.namespaces, first.assumed_clients) == (frozenset({"payments"}), 7)
    assert first.entities[0].matches(Entity(("pay-1", ABSENT, ABSENT)))


def test_a_number_beyond_float64_is_no_bound() -> None:
    huge = 10**400
    guards = from_spec(
        "prod",
        {
            "bootstrapServers": "a:1",
            "guards": {
                "maxChangeFactor": huge,
                "bounds": [{"limits": {"requestPercentage": {"max": huge}}}],
            },
        },
    ).guards
    assert guards.max_change_factor == math.inf
    assert [bound.maximum for bound in guards.bounds] == [math.inf]


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("a/b.yaml", True),
        ("a/b/c.yaml", True),
        ("ab/c.yaml", False),
        ("b/a/c.yaml", False),
        ("a", True),
    ],
)
def test_a_grant_covers_files_below_its_folders(path: str, covered: bool) -> None:
    tenant = TenantGrant(namespaces=frozenset({"x"}), entities=())
    assert Grant(tenant=tenant, paths=("a",)).covers(path) is covered
    assert Grant(tenant=tenant, paths=(".",)).covers(path)
    assert Grant(tenant=tenant).covers(path)
