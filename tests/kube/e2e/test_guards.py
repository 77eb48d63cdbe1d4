"""Protection against the loss of all limits: incomplete listings, a CRD that is deleted."""

import json
from collections.abc import Iterator

import pytest

from tests.kube.e2e.seeing import has_finalizer, orphans
from tests.kube.e2e.world import CHART, RELEASE, Obj, Operator, World, eventually

pytestmark = pytest.mark.integration

MIB = 1048576.0
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


def _narrowed(world: World, *namespaces: str) -> tuple[str, str]:
    """An operator's account with the rights of a chart that watches only these namespaces: its namespace and name."""
    home = world.kube.fresh_namespace()
    watched = ",".join(namespaces)
    rendered = world.kube.helm(
        "template",
        f"{RELEASE}-narrow",
        str(CHART),
        "--namespace",
        home,
        "--set",
        "crds.enabled=false",
        "--set",
        f"watch.namespaces={{{watched}}}",
        "--set",
        "fullnameOverride=narrow",
        "--set",
        "admissionPolicies.enabled=false",
        "--set",
        "rbac.aggregate=false",
        "--set",
        "rbac.releaseRole=false",
    ).stdout
    kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    parts = [
        part
        for part in rendered.split("\n---\n")
        if any(f"\nkind: {kind}\n" in f"\n{part}" for kind in kinds) and "helm.sh/hook" not in part
    ]
    world.kube.kubectl("apply", "-f", "-", input="\n---\n".join(parts))
    policies = world.kube.kubectl("get", "validatingadmissionpolicy", "-o", "json").stdout
    for policy in json.loads(policies)["items"]:
        if "-status." in policy["metadata"]["name"]:
            # The policy of the other release permits this account to write statuses: admissionPolicies.statusWriters.
            (rule,) = policy["spec"]["validations"]
            user = f"system:serviceaccount:{home}:narrow"
            rule["expression"] = rule["expression"].replace(" in [", f' in ["{user}",')
            world.kube.kubectl("replace", "-f", "-", input=json.dumps(policy))
    return home, "narrow"


def test_a_namespace_without_the_right_to_list_stops_all_removals(world: World) -> None:
    team, second_namespace = world.team, world.kube.fresh_namespace()
    home, account = _narrowed(world, team, second_namespace)
    world.cluster(**_sync(world))
    operator = Operator(
        world.kube,
        world.folder,
        namespace=home,
        account=account,
        rendered=[
            argument.replace(world.place.namespace, home) for argument in world.place.arguments
        ],
        arguments=["--namespace", team, "--namespace", second_namespace, "--no-leader-elect"],
        identity="narrow",
    )
    world.operators.append(operator)
    eventually(operator.ready)
    world.quota("alice", namespace=team)
    world.quota("gone", namespace=team)
    world.quota("bob", namespace=second_namespace)
    world.becomes("alice", "Synced", namespace=team)
    world.becomes("gone", "Synced", namespace=team)
    world.becomes("bob", "Synced", namespace=second_namespace)

    binding = json.loads(
        world.kube.kubectl("get", "rolebinding", "-n", second_namespace, "-o", "json").stdout
    )["items"][0]
    world.kube.kubectl("delete", "rolebinding", "-n", second_namespace, binding["metadata"]["name"])
    world.delete("gone", namespace=team)
    world.kube.kubectl(
        "patch",
        "clientquota",
        "bob",
        "-n",
        second_namespace,
        "--type=merge",
        "-p",
        '{"metadata": {"finalizers": null}}',
    )
    world.delete("bob", namespace=second_namespace)
    world.becomes("prod", "ListingIncomplete", kind="quotacluster")
    before = operator.metric("kquota_passes_total", cluster="prod")
    eventually(lambda: operator.metric("kquota_passes_total", cluster="prod") >= before + 2)
    assert set(world.live()) == {"alice", "gone", "bob"}, "something was removed"
    assert has_finalizer(world.get("gone", namespace=team))
    # New values are set.
    world.quota("alice", limits={"producerByteRate": "2Mi"}, namespace=team)
    world.becomes("alice", "Synced", namespace=team)
    assert world.live()["alice"] == {"producer_byte_rate": 2 * MIB}

    for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        binding["metadata"].pop(name, None)
    world.kube.kubectl("apply", "-f", "-", input=json.dumps(binding))
    eventually(lambda: not world.get("gone", namespace=team), what="the removal to be made up for")
    eventually(lambda: "gone" not in world.live())
    world.becomes("prod", "Synced", kind="quotacluster")
