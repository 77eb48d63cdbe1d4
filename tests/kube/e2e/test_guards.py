"""Protection against the loss of all limits: incomplete listings, a CRD that is deleted."""

import json
from collections.abc import Iterator

import pytest

from tests.kube.e2e.seeing import orphans
from tests.kube.e2e.world import Obj, World, eventually

pytestmark = pytest.mark.integration

CRD = "clientquotas.kafka-quotas.io"


def _sync(world: World) -> dict[str, str]:
    return {
        "policy": "Sync",
        "confirmSync": world.kafka.cluster_id,
        "expectedClusterId": world.kafka.cluster_id,
    }


def _many(world: World, count: int, **spec: object) -> list[str]:
    names = [f"user-{number:02}" for number in range(count)]
    world.kube.apply(*(world.document(name, **spec) for name in names), namespace=world.team)
    for name in names:
        world.becomes(name, "Synced")
    return names


def _crd(world: World) -> Obj:
    crd: Obj = json.loads(world.kube.kubectl("get", "crd", CRD, "-o", "json").stdout)
    for name in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"):
        crd["metadata"].pop(name, None)
    crd.pop("status", None)
    return crd


@pytest.fixture
def definition(world: World) -> Iterator[World]:
    """A world whose CRD may be deleted; it is recreated at the end."""
    crd = _crd(world)
    try:
        yield world
    finally:
        if "deletionTimestamp" in world.get(CRD, kind="customresourcedefinition").get(
            "metadata", {}
        ):
            world.place.clear()
            eventually(lambda: not world.get(CRD, kind="customresourcedefinition"))
        if not world.get(CRD, kind="customresourcedefinition"):
            world.kube.kubectl("create", "-f", "-", input=json.dumps(crd))
        world.kube.wait_established(f"crd/{CRD}")


def test_a_deleted_crd_under_sync_removes_no_quota(definition: World) -> None:
    world = definition
    crd = _crd(world)
    world.cluster(**_sync(world))
    operator = world.start("--deletion-timeout=8s")
    names = _many(world, 12)
    world.kube.kubectl("delete", "crd", CRD, "--wait=false")
    conditions = world.becomes("prod", "GuardRefused", kind="quotacluster")["status"]["conditions"]
    (message,) = (condition["message"] for condition in conditions if condition["type"] == "Ready")
    assert f"the definition {CRD} is being deleted" in message
    assert set(world.live()) == set(names)
    # A deletion is held for a limited time; the limits stay.
    eventually(
        lambda: not world.get(CRD, kind="customresourcedefinition"), what="the CRD to be gone"
    )
    assert set(world.live()) == set(names)
    assert orphans(world) == {f"user={name} producer_byte_rate" for name in names}
    before = operator.metric("kquota_passes_total", cluster="prod")
    eventually(lambda: operator.metric("kquota_passes_total", cluster="prod") >= before + 2)
    assert set(world.live()) == set(names), "no listing looked like an empty one"
    assert operator.child.running

    # From here on nothing is found by polling every two seconds: the watch must come back, too.
    world.cluster(**_sync(world), interval="1h")
    world.kube.kubectl("create", "-f", "-", input=json.dumps(crd))
    world.kube.wait_established(f"crd/{CRD}")
    world.kube.apply(*(world.document(name) for name in names), namespace=world.team)
    world.becomes(names[0], "Synced")
    for name in names:
        world.becomes(name, "Synced")
    eventually(lambda: orphans(world) == set())
    assert "watches restart" in operator.log.read_text(encoding="utf-8")
    assert "Traceback" not in operator.log.read_text(encoding="utf-8")
    assert set(world.live()) == set(names)
