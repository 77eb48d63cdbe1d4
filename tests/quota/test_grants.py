"""Grants: which declarations of a namespace are allowed, and which limits count."""

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.grants import Permission, TenantGrant, granted_ranges, judge, may_remove
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EVERYTHING, EntityForm, EntityPattern, NamePattern
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.value_ranges import ValueRange
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.state import limits_of

RATE = Key.PRODUCER_BYTE_RATE
PAY = EntityPattern(user=NamePattern(prefix="pay-"))
TENANT = TenantGrant(namespaces=frozenset({"payments"}), entities=(PAY,), priority=5)


def document(subject=entity(user="pay-app"), *, name="payments/one", rate=1e6, **more):  # noqa: B008 - a constant
    return Declaration(document=name, entity=subject, limits=limits_of({RATE: rate}), **more)


def test_without_tenants_everything_is_granted_unchanged():
    declaration = document(suspended=True, deletion_policy=DeletionPolicy.DELETE)
    verdict = judge(declaration, [])
    assert (verdict.granted, verdict.declaration, verdict.messages) == (True, declaration, ())


def test_a_covered_declaration_is_granted_with_the_priority_of_its_grant():
    verdict = judge(document(), [TENANT])
    assert (verdict.granted, verdict.messages, verdict.priority) == (True, (), 5)


@pytest.mark.parametrize(
    "declaration",
    [
        document(name="other/one"),
        document(name="payments-2/one"),
        document(entity(user="app")),
        document(entity(client_id="pay-app")),
        document(entity(user=DEFAULT)),
        document(entity(ip="10.0.0.1")),
    ],
)
def test_a_declaration_without_a_grant_is_refused_without_naming_other_tenants(declaration):
    other_grant = TenantGrant(namespaces=frozenset({"secret"}), entities=(EVERYTHING,))
    verdict = judge(declaration, [TENANT, other_grant])
    assert not verdict.granted
    assert verdict.declaration == declaration
    (message,) = verdict.messages
    assert "has no grant" in message
    assert "secret" not in message


def test_default_forms_need_their_own_grant():
    wide = replace(
        TENANT, entities=(PAY, EntityPattern(forms=frozenset({EntityForm.DEFAULT_USER})))
    )
    assert judge(document(entity(user=DEFAULT)), [wide]).granted


def test_values_must_be_within_the_granted_bounds():
    bound = ValueRange(entities=PAY, key=RATE, minimum=100.0, maximum=200.0)
    bounded = replace(TENANT, bounds=(bound, replace(bound, key=Key.REQUEST_PERCENTAGE)))
    assert [
        judge(document(rate=rate), [bounded]).granted for rate in (99.0, 100.0, 200.0, 201.0)
    ] == [False, True, True, False]
    (low,) = judge(document(rate=99.0), [bounded]).messages
    (high,) = judge(document(rate=201.0), [bounded]).messages
    assert low == "producer_byte_rate 99 B/s is below the granted minimum 100 B/s"
    assert high == "producer_byte_rate 201 B/s is above the granted maximum 200 B/s"
    elsewhere = replace(bound, entities=EntityPattern(user=NamePattern(exact="pay-other")))
    assert judge(document(rate=1.0), [replace(TENANT, bounds=(elsewhere,))]).granted
    open_ended = replace(bound, minimum=None, maximum=None)
    assert judge(document(rate=1.0), [replace(TENANT, bounds=(open_ended,))]).granted


def test_the_grant_with_the_smallest_priority_applies():
    strict = replace(TENANT, priority=1, bounds=(ValueRange(entities=PAY, key=RATE, maximum=1.0),))
    assert not judge(document(), [TENANT, strict]).granted
    assert judge(document(), [TENANT, replace(strict, priority=9)]).granted


def test_delete_and_suspend_apply_only_where_granted():
    declaration = document(suspended=True, deletion_policy=DeletionPolicy.DELETE)
    plain = judge(declaration, [TENANT])
    assert plain.granted
    assert (plain.declaration.deletion_policy, plain.declaration.suspended) == (
        DeletionPolicy.RETAIN,
        False,
    )
    assert plain.messages == (
        "deletionPolicy Delete is not granted and acts as Retain",
        "suspend is not granted and is ignored",
    )
    free = replace(TENANT, allow=frozenset(Permission))
    (namespace,) = TENANT.namespaces
    assert judge(declaration, [free]).declaration == replace(declaration, tenant=namespace)
    assert judge(declaration, [free]).messages == ()


def test_an_unset_deletion_policy_does_not_become_delete_under_sync_without_a_grant():
    assert judge(document(), [TENANT]).declaration.deletion_policy is DeletionPolicy.RETAIN
    free = replace(TENANT, allow=frozenset({Permission.DELETE}))
    assert judge(document(), [free]).declaration.deletion_policy is None
    assert judge(document(), [TENANT]).messages == ()


DELETING = replace(TENANT, allow=frozenset({Permission.DELETE}))


@pytest.mark.parametrize(
    ("name", "subject", "tenants", "removes"),
    [
        ("payments/one", entity(user="pay-app"), [], True),
        ("payments/one", None, [], True),
        ("payments/one", entity(user="pay-app"), [TENANT], False),
        ("payments/one", entity(user="pay-app"), [DELETING], True),
        ("payments/one", entity(user="app"), [DELETING], False),
        ("payments/one", None, [DELETING], False),
        ("other/one", entity(user="pay-app"), [DELETING], False),
        # The grant with the smallest priority covers the entity, and other grants add nothing.
        ("payments/one", entity(user="pay-app"), [DELETING, replace(TENANT, priority=1)], False),
    ],
)
def test_a_document_removes_only_granted_pairs(name, subject, tenants, removes):
    assert may_remove(name, subject, tenants) is removes


def test_the_ranges_of_tenants_are_ordered_by_priority_and_a_key_without_bounds_hides_later_ones():
    users = EntityPattern(user=NamePattern(prefix=""))
    ips = EntityPattern(ip=NamePattern(prefix=""))
    bound = ValueRange(entities=EVERYTHING, key=RATE, minimum=1.0, maximum=2.0)
    first = TenantGrant(namespaces=frozenset({"a"}), entities=(users, ips), priority=1)
    second = TenantGrant(
        namespaces=frozenset({"a", "b"}), entities=(users,), bounds=(bound,), priority=2
    )
    ranges = granted_ranges([second, first])
    assert [(range_.entities, range_.namespaces) for range_ in ranges if range_.key is RATE] == [
        (users, {"a"}),
        (ips, {"a"}),
        (users, {"a", "b"}),
    ]
    assert [range_.minimum for range_ in ranges if range_.key is RATE] == [None, None, 1.0]
    assert len(ranges) == 3 * len(Key)
