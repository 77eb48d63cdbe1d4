"""Overrides in the operator's records: replaced values are known, updates are not lost, ended values return."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import (
    ConfigError,
    PlanRefused,
    UsageError,
)
from reconciler.kube.api.custom_resources import REQUESTED_AT
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, CONFIG_MAPS, QUOTA_CLUSTERS
from reconciler.kube.records import overrides, record_store
from reconciler.kube.records.stored_records import LoopMemory
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideEnded, OverrideSet, Owner, RecordChange, Recorded
from reconciler.reconcile import NewOverride
from tests.fakes.clock import FakeClock
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.reviews import quota

ALICE = entity(user="alice")
RATE = Key.PRODUCER_BYTE_RATE
MIB = 1048576.0


def world(applied: float | None = MIB) -> FakeKubeApi:
    """An API server with a QuotaCluster whose records have a limit, unless ``applied`` is ``None``."""
    api = FakeKubeApi()
    api.put(
        QUOTA_CLUSTERS,
        {
            "metadata": {"name": "prod"},
            "spec": {"bootstrapServers": "b:1"},
            "status": {"clusterId": "forged"},
        },
    )
    owner = Owner(document="payments/alice", since=1.0)
    changes = [Recorded(entity=ALICE, key=RATE, value=applied, owner=owner)] if applied else []
    record(api, *changes)
    return api


def record(api: FakeKubeApi, *changes: RecordChange) -> None:
    asyncio.run(
        record_store.change(
            api,
            "kafka",
            "id",
            lambda stored: replace(
                stored,
                owned=stored.owned.with_changes(changes),
                memory=LoopMemory(manager="prod"),
            ),
        )
    )


def begun(api: FakeKubeApi, value: float | None = 5 * MIB, **changes: Any) -> Any:
    any_value = changes.pop("any_value", True)
    request = NewOverride(
        entity=ALICE, key=RATE, value=value, until=1000.0, principal="me", reason="INC-1"
    )

    async def story() -> Any:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.begin(where, [replace(request, **changes)], any_value=any_value)

    return asyncio.run(story())


def overrides_of(api: FakeKubeApi) -> dict[Any, Override]:
    return dict(asyncio.run(record_store.read(api, "kafka", "id")).owned.overrides)


def ended(api: FakeKubeApi, *pairs: Any, now: float = 500.0) -> Any:
    async def story() -> Any:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.end(where, frozenset(pairs), now=now)

    return asyncio.run(story())


def test_the_value_of_an_override_is_judged_by_the_guards_of_the_quota_cluster() -> None:
    api = world()
    with pytest.raises(PlanRefused, match="a wrong unit") as caught:
        begun(api, 5.0, any_value=False)
    assert "--any-value" in caught.value.hint
    cluster = api.find(QUOTA_CLUSTERS, None, "prod")
    cluster["spec"]["guards"] = {"bounds": [{"limits": {"producerByteRate": {"max": 4194304}}}]}
    with pytest.raises(PlanRefused, match="above its bound"):
        begun(api, 5 * MIB, any_value=False)
    assert overrides_of(api) == {}


def test_an_override_records_the_applied_value_that_it_replaces() -> None:
    api = world(2048.0)
    (override,) = begun(api)
    assert overrides_of(api) == {(ALICE, RATE): override}
    assert (override.value, override.before, override.declared) == (5 * MIB, 2048.0, 2048.0)
    assert (override.until, override.author, override.reason) == (1000.0, "me", "INC-1")


def test_a_status_that_a_tenant_wrote_does_not_decide_which_value_returns() -> None:
    api = world(2048.0)
    forged = quota()
    row = {"key": "producer_byte_rate", "desired": 9, "live": 9, "applied": 9, "cause": "InSync"}
    forged["status"] = {"clusterId": "id", "keys": [row]}
    api.put(CLIENT_QUOTAS, forged)
    assert begun(api)[0].before == 2048.0
    with pytest.raises(UsageError, match="the operator applied no producer_byte_rate of user=bob"):
        begun(api, entity=entity(user="bob"))


def test_an_override_of_an_override_restores_the_value_from_before_the_first() -> None:
    api = world(2048.0)
    (first,) = begun(api, 5 * MIB)
    (second,) = begun(api, 6 * MIB)  # The first was not written yet.
    assert (second.before, second.applied) == (2048.0, 2048.0)
    record(api, OverrideSet(override=replace(second, applied=6 * MIB)))
    (third,) = begun(api, None)
    assert (third.before, third.applied, first.before) == (2048.0, 6 * MIB, 2048.0)


@pytest.mark.parametrize("changes", [{"key": Key.CONSUMER_BYTE_RATE, "value": 1.0}, {}])
def test_a_pair_that_the_operator_did_not_apply_cannot_be_overridden(changes: Any) -> None:
    api = world(MIB if changes else None)
    with pytest.raises(UsageError, match="the operator applied no"):
        begun(api, **changes)
    assert overrides_of(api) == {}


def test_an_override_is_ended_by_setting_its_end_to_now() -> None:
    api = world()
    begun(api)
    (override,) = ended(api, (ALICE, RATE))
    assert override.until == 500.0
    assert overrides_of(api)[ALICE, RATE].until == 500.0
    with pytest.raises(UsageError, match="no override"):
        ended(api, (entity(user="bob"), RATE))


def test_concurrent_writes_of_the_operator_are_not_lost() -> None:
    api = world()
    begun(api)
    second = Override(
        entity=entity(user="bob"), key=RATE, value=1.0, until=9.0, author="op", reason="r"
    )
    raced = False

    def operator(verb: str, plural: str, *_: str) -> Any:
        nonlocal raced
        if verb != "update" or plural != CONFIG_MAPS.plural or raced:
            return None
        raced = True
        return record_store.change(
            api,
            "kafka",
            "id",
            lambda stored: replace(
                stored, owned=stored.owned.with_changes([OverrideSet(override=second)])
            ),
        )

    api.before = operator
    begun(api, 6 * MIB)
    assert raced
    overrides_by_pair = overrides_of(api)
    assert overrides_by_pair[ALICE, RATE].value == 6 * MIB
    assert overrides_by_pair[second.entity, RATE] == second


def test_an_unknown_cluster_and_one_without_an_id_are_reported() -> None:
    api = world()
    clusters = {QUOTA_CLUSTERS.plural}
    api.objects = {key: obj for key, obj in api.objects.items() if key[0] in clusters}
    with pytest.raises(ConfigError, match="the records of 0 Kafka clusters"):
        begun(api)
    api.objects.clear()
    with pytest.raises(UsageError, match="there is no QuotaCluster prod"):
        begun(api)


@pytest.mark.parametrize(
    ("until", "recorded", "is_reported"),
    [
        (1500.0, "written", False),
        (1500.0, "unwritten", True),
        (1500.0, "gone", True),
        (500.0, "written", True),
        (500.0, "gone", False),
        (1200.0, "written", False),  # it ended meanwhile
    ],
)
def test_an_override_that_the_operator_did_not_carry_out_is_reported(
    until: float, recorded: str, is_reported: bool
) -> None:
    """For example with the policy Observe, an unreachable broker, or a value that the broker rejects."""
    api = world()
    (override,) = begun(api, until=until)
    if recorded == "written":
        record(api, OverrideSet(override=replace(override, applied=override.value)))
    if recorded == "gone":
        record(api, OverrideEnded(entity=ALICE, key=RATE))

    async def story() -> Any:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.differences(where, [override], recorded_at=1000.0, now=1300.0)

    words = "applied" if until > 1300.0 else "ended"
    sentence = f"the override of producer_byte_rate of user=alice was not {words}"
    assert list(asyncio.run(story())) == ([sentence] if is_reported else [])


def test_a_reconciliation_of_the_operator_is_requested() -> None:
    api, clock = world(), FakeClock()

    async def story() -> bool:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.wait_until_applied(where, seconds=5, clock=clock)

    assert asyncio.run(story()) is False
    assert REQUESTED_AT in api.find(QUOTA_CLUSTERS, None, "prod")["metadata"]["annotations"]
