"""Parts of a QuotaCluster that are separate values."""

import math

import pytest

from reconciler.manifest.project.cluster import Grant, bounds_of, from_spec
from reconciler.quota.entity import ABSENT, Entity
from reconciler.quota.grants import TenantGrant
from reconciler.quota.keys import Key
from reconciler.quota.planner.budgets import BudgetMeasure, BudgetMode
from reconciler.quota.policy import Policy


def test_protected_entities_are_read() -> None:
    guards = from_spec(
        "prod",
        {
            "bootstrapServers": "a:1",
            "guards": {
                "protected": [
                    {"user": {"prefix": "admin-"}, "reason": "the platform team's"},
                    {"forms": ["defaultIp"]},
                ]
            },
        },
    ).guards
    first, second = guards.protected
    assert (first.reason, second.reason) == ("the platform team's", "")
    assert first.entities.matches(Entity(("admin-x", "app", ABSENT)))
    assert not first.entities.matches(Entity(("other", ABSENT, ABSENT)))
    assert second.entities.matches(Entity((ABSENT, ABSENT, None)))


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


def test_bounds_have_the_order_of_the_columns_and_quantities_are_exact() -> None:
    ranges = bounds_of(
        {"requestPercentage": {"max": 12.5}, "producerByteRate": {"min": "1.5Ki", "max": 2**60}}
    )
    assert [(range_.key, range_.minimum, range_.maximum) for range_ in ranges] == [
        (Key.PRODUCER_BYTE_RATE, 1536.0, 2.0**60),
        (Key.REQUEST_PERCENTAGE, None, 12.5),
    ]


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


def test_a_suspended_cluster_is_only_observed_under_every_policy() -> None:
    spec = {"bootstrapServers": "a:1", "policy": "Sync", "suspend": True}
    cluster = from_spec("prod", spec)
    assert cluster.rules().policy is Policy.OBSERVE
    assert cluster.rules(policy=Policy.UPSERT, force=True).policy is Policy.OBSERVE
    assert from_spec("prod", spec | {"suspend": False}).rules().policy is Policy.SYNC


@pytest.mark.parametrize(
    ("confirmed", "expected", "result"),
    [("a", "a", True), ("a", "b", False), (None, None, False), (None, "a", False)],
)
def test_sync_is_confirmed_for_one_cluster_id_only(
    confirmed: str | None, expected: str | None, result: bool
) -> None:
    spec = {"bootstrapServers": "a:1", "confirmSync": confirmed, "expectedClusterId": expected}
    cluster = from_spec("prod", {name: value for name, value in spec.items() if value is not None})
    assert cluster.sync_confirmed is result


def test_the_bounds_of_a_tenant_are_guards_for_its_namespaces_and_entities() -> None:
    tenant = {
        "namespaces": ["pay"],
        "entities": [{"user": {"prefix": "pay-"}}],
        "bounds": {"producerByteRate": {"min": "1Mi", "max": "500Mi"}},
    }
    cluster = from_spec("prod", {"bootstrapServers": "a:1", "tenants": [tenant]})
    (granted,) = (bound for bound in cluster.guards.granted if bound.minimum is not None)
    assert granted.namespaces == {"pay"}
    assert granted.entities == cluster.grants[0].tenant.entities[0]
    assert granted.approves(2.0 * 1024**2)
    assert cluster.guards.bounds == ()
