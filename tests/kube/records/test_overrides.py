"""Overrides in the operator's records: replaced values are known, updates are not lost, ended values return."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import (
    ConfigError,
    InventoryError,
    KquotaError,
    KubernetesConflict,
    PlanRefused,
    UsageError,
)
from reconciler.kube.api.custom_resources import REQUESTED_AT
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, CONFIG_MAPS, QUOTA_CLUSTERS
from reconciler.kube.records import overrides, record_store
from reconciler.kube.records.record_parts import PARTS
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideSet
from tests.fakes.clock import FakeClock
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.reviews import quota

ALICE = entity(user="alice")
RATE = Key.PRODUCER_BYTE_RATE
MIB = 1048576.0


def world(*, live: Any = 1048576, **status: Any) -> FakeKubeApi:
    api = FakeKubeApi()
    obj = quota()
    obj["status"] = {
        "keys": [{"key": "producer_byte_rate", "desired": 1048576, "live": live, **status}]
    }
    if live is None:
        del obj["status"]["keys"][0]["live"]
    api.put(CLIENT_QUOTAS, obj)
    api.put(
        QUOTA_CLUSTERS,
        {
            "metadata": {"name": "prod"},
            "spec": {"bootstrapServers": "b:1"},
            "status": {"clusterId": "id"},
        },
    )
    return api


def begun(api: FakeKubeApi, value: float | None = 5 * MIB, **changes: Any) -> Any:
    request = overrides.OverrideRequest(
        entity=ALICE,
        values={RATE: value},
        until=1000.0,
        author="me",
        reason="INC-1",
        any_value=True,
    )

    async def story() -> Any:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.begin(where, replace(request, **changes))

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


def test_an_override_records_the_value_that_it_replaces() -> None:
    api = world(live=2048)
    (override,) = begun(api)
    assert overrides_of(api) == {(ALICE, RATE): override}
    assert (override.value, override.before, override.declared) == (5 * MIB, 2048.0, MIB)
    assert (override.until, override.author, override.reason) == (1000.0, "me", "INC-1")


def test_a_pair_that_was_not_set_is_restored_as_not_set() -> None:
    api = world(live=None)
    (override,) = begun(api, None)
    assert (override.value, override.before, override.declared) == (None, None, MIB)


def test_an_override_of_an_override_restores_the_value_from_before_the_first() -> None:
    api = world(live=2048)
    begun(api, 5 * MIB)
    obj = api.find(CLIENT_QUOTAS, "payments", "alice")
    obj["status"]["keys"][0]["live"] = 5 * MIB
    (second,) = begun(api, 6 * MIB)
    assert second.before == 2048.0
    (third,) = begun(api, 8 * MIB)  # The second was not written yet.
    assert (third.before, third.applied) == (2048.0, 5.0 * MIB)
    obj["status"]["keys"][0]["live"] = 7.0  # another writer wrote meanwhile
    (fourth,) = begun(api, 9 * MIB)
    assert fourth.before == 7.0


@pytest.mark.parametrize("reason", ["NotGranted", "ClusterInvalid", "Invalid"])
def test_a_document_without_a_grant_does_not_tell_what_an_override_replaces(reason: str) -> None:
    """Its status does not show the live value, whatever happens later: the end of the override would remove it."""
    api = world(live=2048)
    stranger = quota(limits={"producerByteRate": 1})
    stranger["metadata"] |= {"namespace": "a", "uid": "a"}
    stranger["status"] = {
        "conditions": [{"type": "Ready", "status": "False", "reason": reason}],
        "keys": [{"key": "producer_byte_rate", "desired": 1, "cause": "Frozen"}],
    }
    api.put(CLIENT_QUOTAS, stranger)
    (override,) = begun(api)
    assert (override.before, override.declared) == (2048.0, MIB)
    alone = world()
    del alone.objects[next(key for key in alone.objects if "payments" in key)]
    alone.put(CLIENT_QUOTAS, stranger)
    with pytest.raises(UsageError, match=r"no ClientQuota that declares .* shows its live value"):
        begun(alone)


def test_a_suspended_document_whose_limit_was_never_live_is_overridden() -> None:
    api = world(live=None, cause="Frozen")
    status = api.find(CLIENT_QUOTAS, "payments", "alice")["status"]
    status["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "Suspended"}]
    (override,) = begun(api)
    assert (override.before, override.declared) == (None, MIB)


@pytest.mark.parametrize("owned", [{}, {"applied": 512, "live": 512}])
def test_a_document_without_a_grant_is_overridden_if_it_owns_the_limit(owned) -> None:
    api = world()
    status = api.find(CLIENT_QUOTAS, "payments", "alice")["status"]
    status["conditions"] = [{"type": "Ready", "status": "False", "reason": "NotGranted"}]
    status["keys"] = [{"key": "producer_byte_rate", "desired": 1, "cause": "Frozen", **owned}]
    if owned:
        assert begun(api)[0].before == 512.0
        return
    with pytest.raises(UsageError, match=r"no ClientQuota that declares .* shows its live value"):
        begun(api)


@pytest.mark.parametrize("has_owner", [True, False])
def test_a_document_without_a_grant_that_owns_another_limit_does_not_tell_what_is_replaced(
    has_owner: bool,
) -> None:
    """Its status does not show the live value: the end of the override would remove it."""
    api = world(live=2048)
    partial = quota(limits={"producerByteRate": 1, "consumerByteRate": 1})
    partial["metadata"] |= {"namespace": "a", "uid": "a"}
    partial["status"] = {
        "conditions": [{"type": "Ready", "status": "False", "reason": "NotGranted"}],
        "keys": [
            {"key": "producer_byte_rate", "desired": 1, "cause": "Frozen"},
            {"key": "consumer_byte_rate", "desired": 1, "cause": "Frozen", "applied": 512},
        ],
    }
    api.put(CLIENT_QUOTAS, partial)
    if has_owner:
        assert begun(api)[0].before == 2048.0
        return
    del api.objects[next(key for key in api.objects if "payments" in key)]
    with pytest.raises(UsageError, match=r"no ClientQuota that declares .* shows its live value"):
        begun(api)


@pytest.mark.parametrize("cause", ["Conflict", "Frozen"])
@pytest.mark.parametrize("namespace", ["a", "z"])
def test_the_declared_value_is_not_that_of_a_document_without_effect(
    cause: str, namespace: str
) -> None:
    """A document that lost the limit, or is suspended, may be the first of the listing."""
    api = world(live=2048, applied=2048, cause="InSync")
    another = quota(limits={"producerByteRate": 1})
    another["metadata"] |= {"namespace": namespace, "uid": namespace}
    another["status"] = {
        "keys": [{"key": "producer_byte_rate", "desired": 1, "live": 2048, "cause": cause}]
    }
    api.put(CLIENT_QUOTAS, another)
    (override,) = begun(api)
    assert (override.before, override.declared) == (2048.0, MIB)


def test_an_undeclared_pair_cannot_be_overridden() -> None:
    api = world()
    with pytest.raises(UsageError, match="no ClientQuota declares consumer_byte_rate"):
        begun(api, values={Key.CONSUMER_BYTE_RATE: 1.0})
    with pytest.raises(UsageError, match="user=bob"):
        begun(api, entity=entity(user="bob"))
    assert overrides_of(api) == {}


def test_documents_of_other_clusters_or_in_deletion_are_ignored() -> None:
    for change in ("cluster", "deletion"):
        api = world()
        obj = api.find(CLIENT_QUOTAS, "payments", "alice")
        if change == "cluster":
            obj["spec"]["clusterRef"]["name"] = "other"
        else:
            obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        with pytest.raises(UsageError):
            begun(api)


def test_a_pair_that_the_operator_has_not_observed_cannot_be_overridden() -> None:
    api = world()
    del api.find(CLIENT_QUOTAS, "payments", "alice")["status"]
    with pytest.raises(KquotaError, match="has not observed"):
        begun(api)


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


def test_a_part_that_was_deleted_meanwhile_is_an_error_and_not_created_again() -> None:
    api = world()
    begun(api)

    def vandal(verb: str, *call: str) -> None:
        if verb == "update":
            del api.objects[call[0], call[1], call[2]]

    api.before = vandal
    with pytest.raises(InventoryError, match="is missing"):
        begun(api, 6 * MIB)
    assert len([key for key in api.objects if key[0] == CONFIG_MAPS.plural]) == PARTS - 1


def test_a_writer_that_loses_every_race_raises_an_error() -> None:
    api = world()
    begun(api)

    def busy(verb: str, *_: str) -> None:
        if verb == "update":
            raise KubernetesConflict("somebody else", status=409)

    api.before = busy
    with pytest.raises(KubernetesConflict):
        begun(api, 6 * MIB)


def test_an_unknown_cluster_and_one_without_an_id_are_reported() -> None:
    api = world()
    del api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    with pytest.raises(ConfigError, match="no cluster id yet"):
        begun(api)
    api.objects.clear()
    with pytest.raises(UsageError, match="there is no QuotaCluster prod"):
        begun(api)


LIVE = st.sampled_from([None, 1.0, MIB, 5 * MIB])


TIMES = st.tuples(*[st.sampled_from([500.0, 999.0, 1000.0, 1500.0])] * 2).map(sorted)


@pytest.mark.parametrize(("live", "is_restored"), [(2048.0, True), (None, False), (MIB, False)])
def test_an_ended_override_of_a_suspended_document_is_compared_with_the_value_that_it_replaced(
    live, is_restored
):
    """The declared value is not written while the document is suspended."""
    api = world(live=2048)
    (override,) = begun(api)
    item = api.find(CLIENT_QUOTAS, "payments", "alice")["status"]["keys"][0]
    item |= {"live": live, "cause": "Frozen"}

    async def story() -> Any:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.differences(where, [override], recorded_at=1000.0, now=1500.0)

    assert bool(asyncio.run(story())) != is_restored


@pytest.mark.parametrize(("live", "has_ended"), [(2048, True), (MIB, True), (5 * MIB, False)])
def test_an_override_has_ended_with_the_value_that_it_replaced_or_with_the_declared_one(
    live, has_ended
):
    """The replaced value is restored if a guard refuses the declared one."""
    api = world(live=2048)
    (override,) = begun(api)
    item = api.find(CLIENT_QUOTAS, "payments", "alice")["status"]["keys"][0]
    item |= {"live": live, "cause": "Ended", "message": "a factor of 512"}

    async def story() -> Any:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.differences(where, [override], recorded_at=1000.0, now=1500.0)

    assert bool(asyncio.run(story())) != has_ended


@given(LIVE, LIVE, TIMES, st.booleans())
def test_an_override_whose_value_is_not_live_after_the_reconciliation_is_reported(
    live, value, times, declared
):
    """For example with the policy Observe, an unreachable broker, or a value that the broker rejects."""
    api, (recorded_at, now) = world(), times
    (override,) = begun(api, value)
    (obj,) = (obj for key, obj in api.objects.items() if key[0] == CLIENT_QUOTAS.plural)
    obj["status"] = {
        "keys": [{"key": "producer_byte_rate", "desired": MIB, "message": "policy Observe"}]
    }
    if live is not None:
        obj["status"]["keys"][0]["live"] = live
    if not declared:
        obj["spec"]["limits"] = {"consumerByteRate": 1}

    async def story() -> Any:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.differences(where, [override], recorded_at=recorded_at, now=now)

    sentences = asyncio.run(story())
    expected = value if now < override.until else MIB  # also the live value that it replaced
    has_ended_meanwhile = recorded_at < override.until <= now
    assert bool(sentences) == (declared and live != expected and not has_ended_meanwhile)
    assert all(text.startswith("producer_byte_rate of user=alice is ") for text in sentences)
    assert all(text.endswith(": policy Observe") for text in sentences)


def test_a_reconciliation_of_the_operator_is_requested() -> None:
    api, clock = world(), FakeClock()

    async def story() -> bool:
        where = await overrides.ledger(api, namespace="kafka", cluster="prod")
        return await overrides.wait_until_applied(where, seconds=5, clock=clock)

    assert asyncio.run(story()) is False
    assert REQUESTED_AT in api.find(QUOTA_CLUSTERS, None, "prod")["metadata"]["annotations"]
