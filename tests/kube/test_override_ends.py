"""An override ends: no document of a tenant, in any state, keeps its value."""

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconciler.errors import KquotaError
from reconciler.kube.api.resource_paths import CLIENT_QUOTA_DEFINITION, DEFINITIONS
from reconciler.kube.records import overrides
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.reconcile import NewOverride
from tests.hypothesis_profiles import count_examples
from tests.kube.worlds import DELETED, KubeWorld, resource

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
SHARED = entity(user="team-a")
MIB = 1_000_000
RAISED, RAISED_AGAIN = 512 * MIB, 600 * MIB
"""Values of overrides; no document declares them."""

APPS, TEAM, PLATFORM = "apps/own", "team/own", "zone/own"
"""Documents of the entity; listings have this order."""

ONE_CLIENT, EVERYONE = "team/one-client", "zone/everyone"
"""Documents of a closer and of a wider entity."""

ENTITIES = {
    ONE_CLIENT: entity(user="team-a", client_id="app"),
    EVERYONE: entity(user=DEFAULT),
}


def _grant(document: str, priority: int) -> dict[str, Any]:
    return {
        "namespaces": [document.partition("/")[0]],
        "priority": priority,
        "entities": [{"user": {"prefix": "team-"}}, {"forms": ["defaultUser"]}],
        "allow": ["Delete", "Suspend"],
    }


GRANTS = [_grant(APPS, 5), _grant(TEAM, 5), _grant(PLATFORM, -10)]


def _document(name: str, value: float, **spec: Any) -> dict[str, Any]:
    namespace, _, own = name.partition("/")
    limits = {RATE: value, SHARE: 50}
    return resource(own, ENTITIES.get(name, SHARED), limits, namespace=namespace, **spec)


async def _begin(world: KubeWorld, value: float | None) -> None:
    ledger = await overrides.ledger(world.api, namespace="ops", cluster="prod")
    _ = await overrides.begin(
        ledger,
        [
            NewOverride(
                entity=SHARED,
                key=RATE,
                value=value,
                until=world.clock.now() + 100.0,
                principal="me",
                reason="incident",
            )
        ],
    )


def _take(world: KubeWorld, step: tuple[Any, ...]) -> None:
    """Do what a tenant, or an administrator, may do while the override is in force."""
    match step:
        case ("override", value):
            # The operator does not run before the next step, or before the end of the override.
            with contextlib.suppress(KquotaError):
                asyncio.run(_begin(world, value))
            return
        case ("put", name, value, spec):
            if not world.objects.get(name, {}).get("metadata", {}).get("deletionTimestamp"):
                world.put(_document(name, value, **spec))
        case ("drop key", name) if name in world.objects:
            world.objects[name]["spec"]["limits"].pop("producerByteRate", None)
            world.objects[name]["metadata"]["generation"] += 1
        case ("delete", name) if name in world.objects:
            world.delete(name, finalizer=True)
        case ("cluster", spec):
            world.obj["spec"] |= spec
            world.obj["metadata"]["generation"] += 1
        case ("delete definition",):
            definition = world.api.find(DEFINITIONS, None, CLIENT_QUOTA_DEFINITION)
            definition["metadata"]["deletionTimestamp"] = DELETED
        case ("restart",):
            world.restart()
        case _:
            pass
    _ = world.run()


_NAMES = st.sampled_from([APPS, TEAM, PLATFORM, ONE_CLIENT, EVERYONE])
_VALUES = st.sampled_from([1, 5 * MIB, 10 * MIB, 90 * MIB, 1_000 * MIB, 100_000 * MIB])
_SPECS = st.sampled_from([{}, {"suspend": True}, {"deletionPolicy": "Delete"}])
_PUT = st.tuples(st.just("put"), _NAMES, _VALUES, _SPECS)
_CLUSTERS = st.sampled_from(
    [
        {"tenants": GRANTS},
        {"tenants": GRANTS[:1]},
        {"tenants": [{**GRANTS[1], "allow": []}]},
        {"scope": [{"user": {"prefix": "other-"}}]},
        {"policy": "CreateOnly"},
        {"guards": {"maxRemovals": 0}},
        {"guards": {"protected": [{"user": {"prefix": "team-"}}]}},
        {"guards": {"bounds": [{"limits": {"producerByteRate": {"max": MIB}}}]}},
        {"driftDetection": "Disabled"},
    ]
)
_STEPS = st.lists(
    st.one_of(
        _PUT,
        st.tuples(st.sampled_from(["drop key", "delete"]), _NAMES),
        st.tuples(st.just("cluster"), _CLUSTERS),
        st.tuples(st.sampled_from(["delete definition", "restart"])),
        st.tuples(st.just("override"), st.sampled_from([RAISED_AGAIN, None])),
    ),
    max_size=4,
)

_SUSPENDED = {"suspend": True}
_NO_REMOVALS = ("cluster", {"guards": {"maxRemovals": 0}})
_SUSPENSION = ("put", TEAM, 10 * MIB, _SUSPENDED)
_AGAIN, _REMOVED = ("override", RAISED_AGAIN), ("override", None)


@settings(max_examples=count_examples(60))
@given(before=st.lists(_PUT, max_size=2), during=_STEPS)
# A value that a guard refuses.
@example(before=[], during=[("put", TEAM, 100_000 * MIB, {})])
# A document that lost the limit is the first of the listing.
@example(before=[("put", PLATFORM, 10 * MIB, {}), ("put", APPS, 1_000 * MIB, {})], during=[])
# Removals that a guard refuses.
@example(before=[], during=[_NO_REMOVALS, ("drop key", TEAM)])
@example(
    before=[("put", TEAM, 10 * MIB, {"deletionPolicy": "Delete"})],
    during=[_NO_REMOVALS, ("delete", TEAM)],
)
# A removal that waits for a refused value of a wider entity.
@example(
    before=[("put", TEAM, 10 * MIB, {"deletionPolicy": "Delete"})],
    during=[("put", EVERYONE, 100_000 * MIB, {}), ("delete", TEAM)],
)
# A refused value of a closer entity.
@example(before=[], during=[("put", ONE_CLIENT, 100_000 * MIB, {})])
# A second override, and a third, before the operator writes the second.
@example(before=[], during=[_SUSPENSION, _AGAIN])
@example(before=[], during=[_NO_REMOVALS, ("drop key", TEAM), _AGAIN])
@example(before=[], during=[("put", TEAM, 100_000 * MIB, {}), _AGAIN])
@example(before=[], during=[_SUSPENSION, _AGAIN, _REMOVED, ("restart",)])
def test_no_document_keeps_the_value_of_an_override_that_has_ended(before, during):
    world = KubeWorld(guards=None, tenants=GRANTS)
    world.kafka.cluster_id = "fake"
    for step in (("put", TEAM, 10 * MIB, {}), *before):
        _take(world, step)
    asyncio.run(_begin(world, RAISED))
    for step in (("run",), *during):
        _take(world, step)
    world.clock.advance(200.0)
    for _ in range(3):
        _ = world.run()
    assert world.live().get(SHARED, (None,))[0] not in {RAISED, RAISED_AGAIN}


@pytest.mark.parametrize("value", [None, RAISED])
@pytest.mark.parametrize(
    ("policy", "is_observed", "has_namesake", "is_kept"),
    [
        ("Delete", False, False, True),
        ("Delete", False, True, True),
        ("Retain", False, True, True),
        ("Retain", True, False, True),
        ("Delete", True, False, False),
    ],
)
def test_a_document_that_disappears_during_an_override_leaves_the_same_limit_as_without_one(
    value, policy, is_observed, has_namesake, is_kept
):
    """An override that removes the limit drops its record; the record of the override has the owner."""
    world = KubeWorld(guards=None, tenants=GRANTS)
    world.kafka.cluster_id = "fake"
    world.put(resource("own", SHARED, {RATE: 10 * MIB}, namespace="team", deletionPolicy=policy))
    _ = world.run()
    asyncio.run(_begin(world, value))
    _ = world.run()
    assert world.live().get(SHARED, (None,))[0] == value
    world.delete(TEAM, finalizer=is_observed)
    if is_observed:
        _ = world.run()
    if has_namesake:
        namesake = entity(user="team-b")
        world.put(resource("own", namesake, {RATE: MIB}, namespace="team", deletionPolicy=policy))
    world.restart()
    world.clock.advance(200.0)
    for _ in range(3):
        _ = world.run()
    assert world.live().get(SHARED, (None,))[0] == (10 * MIB if is_kept else None)
    assert world.load()[1].overrides == {}
