"""The what-if policy of a project: which client is in which tier, allowed impacts, sizing."""

from dataclasses import replace

import pytest

from reconciler.errors import ManifestErrors, QuotaValueError
from reconciler.manifest.project.file import parse
from reconciler.manifest.project.simulation_policy import policy_of
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.state import NO_LIMITS
from reconciler.usage.clients import (
    CONNECTIONS,
    UNSTATED_CONSUMERS,
    UNSTATED_PRODUCERS,
    Clients,
    Span,
)
from reconciler.usage.impact.verdict import Tolerance
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket, GroupKind, bucket_of

PROD, STAGING = "4L6g3nShT-eMCtK--X86sw", "lkc-staging"
ALICE, BOB = entity(user="alice"), entity(user="bob")
WRITTEN = {
    "failOn": {"newThrottledPerDay": "10m", "maxDelay": "60s"},
    "tiers": {
        "payments": {
            "share": 0.0005,
            "maxDelay": "5s",
            "entities": [{"user": {"prefix": "pay-"}}, {"forms": ["defaultIp"]}],
            "marginPercent": 30,
            "bumpPercent": 0,
            "ignorePercent": 5,
            "cutPercent": 25,
            "bounds": {
                "producerByteRate": {"min": "1Mi", "max": "1Gi"},
                "requestPercentage": {"min": 2.5},
            },
        },
        "gold": 0.002,
        "slow": {"newThrottledPerDay": "2h", "entities": [{"clientId": {"exact": "etl"}}]},
    },
    "elastic": "Ignore",
}


def document(subject, tier):
    return Declaration(
        document="ns/one",
        entity=subject,
        limits=NO_LIMITS,
        labels=(("app", "x"), ("kafka-quotas.io/tier", tier)),
    )


def test_every_setting_of_a_tier_is_read_into_its_value():
    rule = policy_of(WRITTEN).tier_of(PROD, entity(user="pay-1", client_id="x"))
    assert (rule.name, rule.tolerance) == (
        "payments",
        Tolerance(new_throttled_ms_per_day=43_200, max_delay_ms=5_000),
    )
    tier = rule.tier
    assert (tier.share_ppm, tier.max_delay_ms) == (500, 5_000)
    assert (tier.margin_percent, tier.bump_percent, tier.ignore_percent, tier.cut_percent) == (
        30,
        0,
        5,
        25,
    )
    assert rule.sized(QuotaType.PRODUCE) == replace(tier, floor=2**20, ceiling=2**30)
    assert rule.sized(QuotaType.REQUEST) == replace(tier, floor=2_500_000)
    assert rule.sized(QuotaType.FETCH) == tier


def test_zero_tolerates_nothing_and_is_not_the_same_as_unset():
    strict = {"newThrottledPerDay": "0s", "maxDelay": "0s"}
    policy = policy_of({"failOn": strict, "tiers": {"own": {"share": 0.5, **strict}}})
    nothing = Tolerance(new_throttled_ms_per_day=0, max_delay_ms=0)
    assert {rule.tolerance for rule in policy.rules} == {nothing}


@pytest.mark.parametrize(
    ("who", "name"),
    [
        (entity(user="pay-1"), "payments"),
        (bucket_of("pay-1"), "payments"),
        (bucket_of("pay-1", "etl"), "payments"),
        (bucket_of("", "etl"), "slow"),
        (bucket_of("", "other"), "silver"),
        (entity(user=DEFAULT), "silver"),
        (entity(ip=DEFAULT), "payments"),
        (Bucket(kind=GroupKind.IP), "payments"),
        (Bucket(kind=GroupKind.NONE), "silver"),
        (bucket_of(ip="10.0.0.1"), "silver"),
        (Bucket(kind=GroupKind.USER), "silver"),
    ],
)
def test_entities_and_buckets_are_assigned_to_their_tier(who, name):
    assert policy_of(WRITTEN).tier_of(PROD, who).name == name


def test_labels_of_every_cluster_are_checked():
    policy = policy_of({}, {PROD: [document(ALICE, "tin")], STAGING: [document(ALICE, "lead")]})
    assert policy.unknown == ("lead", "tin")


def test_a_label_never_weakens_the_gate_or_replaces_a_tier_of_the_policy():
    policy = policy_of(
        WRITTEN, {PROD: [document(ALICE, "slow"), document(entity(user="pay-1"), "slow")]}
    )
    slow = policy.tier_of(PROD, ALICE)
    assert slow.name == "slow"
    assert slow.tolerance == Tolerance(new_throttled_ms_per_day=600_000, max_delay_ms=60_000)
    assert policy.tier_of(PROD, entity(user="pay-1")).name == "payments"
    stricter = policy_of(WRITTEN, {PROD: [document(BOB, "gold")]}).tier_of(PROD, BOB)
    assert stricter.tolerance.new_throttled_ms_per_day == 172_800


CLIENTS = {
    "consumers": [
        {
            "entities": [{"user": {"prefix": "etl-"}}],
            "maxPartitionFetchBytes": "64Ki",
            "partitions": 4,
            "batchBytes": 16_384,
            "connections": 3,
        },
        {"entities": [{"user": {"exact": "bob"}}], "fetchMaxBytes": "2Mi"},
        {"entities": [{"user": {"exact": "eve"}}], "partitions": 100},
        {"maxPartitionFetchBytes": 100_000, "fetchMaxBytes": "50k", "partitions": 1},
    ],
    "producers": [
        {
            "entities": [{"user": {"prefix": "etl-"}}],
            "recordBytes": "1Ki",
            "linger": "50ms",
            "batchBytes": "64Ki",
            "connections": 2,
        },
        {"entities": [{"user": {"exact": "bob"}}], "recordBytes": 100},
    ],
}


def exactly(number: int) -> Span:
    return Span(number, number)


@pytest.mark.parametrize(
    ("user", "size", "batch", "is_stated"),
    [
        ("etl-1", exactly(262_144), exactly(16_384), True),
        ("bob", Span(1_048_576, 2_097_152), Span(170, 0), False),
        ("eve", exactly(52_428_800), Span(170, 0), False),
        ("joe", exactly(50_000), Span(170, 0), False),
    ],
)
def test_the_fetches_of_consumers_are_read_from_the_settings(user, size, batch, is_stated):
    clients = policy_of(CLIENTS).clients.of(QuotaType.FETCH, bucket_of(user))
    assert clients is not None
    assert (clients.most_bytes, clients.part_bytes) == (size, batch)
    assert clients.is_stated is is_stated
    assert clients.connections == (exactly(3) if is_stated else CONNECTIONS)


def test_the_requests_of_producers_are_read_from_the_settings():
    clients = policy_of(CLIENTS).clients
    assert clients.of(QuotaType.PRODUCE, bucket_of("etl-1")) == Clients(
        is_produce=True,
        connections=exactly(2),
        most_bytes=exactly(65_536),
        part_bytes=exactly(1_024 + 9),
        linger_ms=exactly(50),
    )
    bob = clients.of(QuotaType.PRODUCE, bucket_of("bob"))
    assert bob is not None
    assert (bob.part_bytes, bob.linger_ms, bob.is_stated) == (exactly(109), Span(0, 5), False)
    assert clients.of(QuotaType.PRODUCE, bucket_of("joe")) == UNSTATED_PRODUCERS
    assert clients.of(QuotaType.REQUEST, bucket_of("bob")) is None


def test_consumers_without_a_setting_may_have_any_fetch_size_up_to_the_default():
    only_etl = {"consumers": CLIENTS["consumers"][:1]}
    for policy in (policy_of({}), policy_of(only_etl)):
        assert policy.clients.of(QuotaType.FETCH, bucket_of("joe")) == UNSTATED_CONSUMERS
    unstated = policy_of(only_etl).clients.of(QuotaType.FETCH, bucket_of("", "app"))
    assert unstated == UNSTATED_CONSUMERS


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"maxPartitionFetchBytes": 0}, "a request of 0 to"),
        ({"maxPartitionFetchBytes": "1.5"}, "not a whole number"),
        ({"batchBytes": "2Mi"}, "does not hold a batch of 2,097,152"),
    ],
)
def test_an_error_about_impossible_fetch_sizes_names_their_entry(wrong, words):
    with pytest.raises(QuotaValueError, match=rf"consumers\[1\]: .*{words}"):
        policy_of({"consumers": [{"partitions": 1}, {"partitions": 1} | wrong]})


def test_consumption_is_never_refused():
    policy = policy_of(WRITTEN)
    assert policy.tolerance_of(PROD, QuotaType.FETCH, bucket_of("pay-1")).elastic
    assert not policy.tolerance_of(PROD, QuotaType.PRODUCE, bucket_of("pay-1")).elastic


PROJECT = """
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  simulate: {{{}}}
---
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata: {{name: prod}}
spec: {{bootstrapServers: "k:9092"}}
"""


@pytest.mark.parametrize(
    ("simulate", "words"),
    [
        ("tiers: {a: 2}", "above the largest value allowed"),
        ("tiers: {a: b}", "must be a decimal number without exponent or a mapping"),
        ("tiers: {a: {shore: 0.1}}", "did you mean share?"),
        ("tiers: {a: {cutPercent: 0}}", "below the smallest value allowed"),
        ("tiers: {a: {entities: [{}]}}", "needs at least 1 fields"),
        ("tiers: {a: {entities: [{user: {exact: one, prefix: two}}]}}", "has more than 1 fields"),
        (
            "tiers: {a: {entities: [{ip: {exact: one}, user: {exact: two}}]}}",
            "spec.simulate.tiers.a: an ip pattern cannot be combined",
        ),
        (
            "tiers: {a: {bounds: {producerByteRate: {min: 2Mi, max: 1Mi}}}}",
            "spec.simulate.tiers.a: the floor must lie above 0 and below the ceiling",
        ),
        ("usualTier: x", "spec.simulate.usualTier: unknown tier 'x'"),
        ("elastic: Gate", "is not one of Report, Ignore"),
    ],
)
def test_an_error_is_reported_with_its_line(simulate, words):
    with pytest.raises(ManifestErrors) as caught:
        parse(PROJECT.format(simulate))
    (problem,) = caught.value.problems
    assert words in problem.message
    assert problem.line == 5
