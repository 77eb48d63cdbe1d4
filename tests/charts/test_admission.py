"""The admission policies of the chart on a real API server, for accounts with the rights that the chart grants."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.charts.release import FULLNAME, Placed, placed
from tests.servers.kube.api import MERGE_PATCH
from tests.servers.kube.cluster import KubeCluster

pytestmark = pytest.mark.integration

FINALIZER = "kafka-quotas.io/release"
ADD = {"metadata": {"finalizers": ["example.org/other", FINALIZER]}}
REMOVE = {"metadata": {"finalizers": ["example.org/other"]}}
STRANGER, PERSON, ADMIN = "stranger", "person-who-releases", ""
NOT_YOURS = 'only the operator, its release hook and holders of the verb "release"'
Answer = subprocess.CompletedProcess[str]


def quota(name: str, namespace: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": {"name": name, "namespace": namespace, "finalizers": ["example.org/other"]},
        "spec": {
            "clusterRef": {"name": "prod"},
            "entity": {"user": {"name": name}},
            "limits": {"producerByteRate": "1Mi"},
            **spec,
        },
    }


def tried(release: Placed, user: str, *arguments: str, text: str | None = None) -> Answer:
    """Run kubectl in the watched namespace as `user`, with any result."""
    who = (f"--as={user}",) if user else ()
    return release.kube.kubectl("-n", release.watched, *who, *arguments, input=text, check=False)


def patched(release: Placed, user: str, name: str, change: object, *more: str) -> Answer:
    text = json.dumps(change)
    return tried(release, user, "patch", "clientquota", name, "--type=merge", "-p", text, *more)


def finalizers(release: Placed, name: str) -> list[str]:
    stdout = release.kube.kubectl(
        "-n", release.watched, "get", "clientquota", name, "-o", "json"
    ).stdout
    return list(json.loads(stdout)["metadata"].get("finalizers", []))


def bind_users(release: Placed) -> None:
    """Bind the role edit to one user, and the release role to another."""
    inside = ("-n", release.watched)
    kubectl = release.kube.kubectl
    kubectl("create", "rolebinding", "edit", "--clusterrole=edit", f"--user={STRANGER}", *inside)
    role = f"quotas-kafka-quota-reconciler-releaser.{release.home}"
    kubectl("create", "rolebinding", "free", f"--clusterrole={role}", f"--user={PERSON}", *inside)


@pytest.fixture(scope="module")
def policies(chart_kube: KubeCluster) -> Iterator[Placed]:
    """A release with its admission policies."""
    with placed(chart_kube) as release:
        bind_users(release)
        chart_kube.apply(quota("first", release.watched), namespace=release.watched)

        def enforced() -> bool:
            answer = patched(release, STRANGER, "first", ADD, "--dry-run=server")
            return NOT_YOURS in answer.stderr

        chart_kube.wait_until(enforced, "enforce the policy on the finalizer", seconds=240)

        def also_the_other() -> bool:
            change = {"spec": {"suspend": True}}
            return (
                "may not change the spec"
                in patched(release, release.operator, "first", change, "--dry-run=server").stderr
            )

        chart_kube.wait_until(also_the_other, "enforce the policy on specs", seconds=240)
        yield release
        remove(release, "first")


@pytest.fixture
def release(policies: Placed) -> Placed:
    """The same release, with the document `first` in its initial state."""
    remove(policies, "first")
    policies.kube.api.call("POST", collection(policies), quota("first", policies.watched)).need()
    return policies


def collection(release: Placed) -> str:
    return f"/apis/kafka-quotas.io/v1alpha1/namespaces/{release.watched}/clientquotas"


def remove(release: Placed, name: str) -> None:
    """Delete a document whose finalizers are not removed otherwise."""
    path = f"{collection(release)}/{name}"
    release.kube.api.call("DELETE", path)
    release.kube.api.call("PATCH", path, {"metadata": {"finalizers": []}}, kind=MERGE_PATCH)


def test_other_users_can_neither_add_nor_remove_the_finalizer_by_any_verb(release: Placed) -> None:
    assert NOT_YOURS in patched(release, STRANGER, "first", ADD).stderr
    assert patched(release, release.operator, "first", ADD).returncode == 0
    assert NOT_YOURS in patched(release, STRANGER, "first", REMOVE).stderr
    replacement = quota("first", release.watched)
    answer = tried(release, STRANGER, "replace", "-f", "-", text=json.dumps(replacement))
    assert NOT_YOURS in answer.stderr
    assert finalizers(release, "first") == ["example.org/other", FINALIZER]


def test_other_users_may_change_everything_else(release: Placed) -> None:
    assert patched(release, release.operator, "first", ADD).returncode == 0
    change = {
        "spec": {"limits": {"producerByteRate": "2Mi"}},
        "metadata": {"labels": {"team": "a"}},
    }
    assert patched(release, STRANGER, "first", change).returncode == 0
    only_ours = {"metadata": {"finalizers": [FINALIZER]}}
    assert patched(release, STRANGER, "first", only_ours).returncode == 0
    assert (
        tried(release, STRANGER, "delete", "clientquota", "first", "--wait=false").returncode == 0
    )
    assert finalizers(release, "first") == [FINALIZER]


@pytest.mark.parametrize("who", ["operator", "hook", "person", "administrator"])
def test_accounts_with_the_right_to_release_can_remove_the_finalizer(
    release: Placed, who: str
) -> None:
    user = {
        "operator": release.operator,
        "hook": release.releaser,
        "person": PERSON,
        "administrator": ADMIN,
    }[who]
    assert patched(release, release.operator, "first", ADD).returncode == 0
    answer = patched(release, user, "first", REMOVE)
    assert answer.returncode == 0, answer.stderr
    assert finalizers(release, "first") == ["example.org/other"]


@pytest.mark.parametrize("who", ["operator", "hook"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"limits": {"producerByteRate": "9Mi"}}}, "may not change the spec"),
        ({"spec": {"suspend": True}}, "may not change the spec"),
        ({"metadata": {"labels": {"a": "b"}}}, "may change nothing but its own finalizer"),
        ({"metadata": {"annotations": {"a": "b"}}}, "may change nothing but its own finalizer"),
        ({"metadata": {"finalizers": [FINALIZER]}}, "no finalizer but kafka-quotas.io/release"),
        (
            {"metadata": {"finalizers": ["example.org/other", "example.org/blocks"]}},
            "no finalizer but kafka-quotas.io/release",
        ),
    ],
    ids=["limits", "suspend", "labels", "annotations", "others-finalizer", "new-finalizer"],
)
def test_accounts_of_the_operator_change_nothing_but_the_finalizer(
    release: Placed, who: str, change: object, why: str
) -> None:
    user = release.operator if who == "operator" else release.releaser
    answer = patched(release, user, "first", change)
    assert answer.returncode != 0
    assert why in answer.stderr


def test_the_operator_creates_no_lease_but_its_own(release: Placed) -> None:
    def created(name: str) -> Answer:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
        }
        arguments = ("-n", release.home, f"--as={release.operator}", "create", "-f", "-")
        return release.kube.kubectl(
            *arguments, "--dry-run=server", input=json.dumps(lease), check=False
        )

    release.kube.wait_until(
        lambda: f"may create no Lease but {FULLNAME}" in created("another").stderr,
        "enforce the policy on leases",
        seconds=240,
    )
    own = created(FULLNAME)
    assert own.returncode == 0, own.stderr


LARGE_METADATA = {
    "annotations": ({"annotations": {"a": "x" * 32_767}}, {"annotations": {"a": "x" * 32_768}}),
    "many annotations": (
        {"annotations": {f"a{number}": "" for number in range(64)}},
        {"annotations": {f"a{number}": "" for number in range(65)}},
    ),
    "labels": (
        {"labels": {f"l{number}": "" for number in range(64)}},
        {"labels": {f"l{number}": "" for number in range(2_000)}},
    ),
    "finalizers": (
        {"finalizers": [f"example.org/f{number}" for number in range(32)]},
        {"finalizers": [f"example.org/f{number}" for number in range(33)]},
    ),
    # Of an unknown kind: the garbage collector deletes dependents of an absent owner of a known kind.
    "owners": (
        {
            "ownerReferences": [
                {"apiVersion": "x.org/v1", "kind": "X", "name": "x", "uid": "x" * 16_373}
            ]
        },
        {
            "ownerReferences": [
                {"apiVersion": "x.org/v1", "kind": "X", "name": "x", "uid": "x" * 16_375}
            ]
        },
    ),
}


@pytest.mark.parametrize("what", LARGE_METADATA)
def test_metadata_is_bounded_and_stored_metadata_can_be_reduced(release: Placed, what: str) -> None:
    fits, too_large = LARGE_METADATA[what]

    def create(metadata: dict[str, object], *more: str) -> Answer:
        obj = quota("large", release.watched)
        obj["metadata"] = {"name": "large", "namespace": release.watched, **metadata}
        return tried(release, STRANGER, "create", *more, "-f", "-", text=json.dumps(obj))

    refused = "a ClientQuota has at most"
    release.kube.wait_until(
        lambda: refused in create(too_large, "--dry-run=server").stderr,
        "enforce the policy on metadata",
        seconds=240,
    )
    answer = create(fits)
    assert answer.returncode == 0, answer.stderr
    assert refused in patched(release, STRANGER, "large", {"metadata": too_large}).stderr
    # As if it had been stored before the policy existed.
    policy = f"{FULLNAME}-metadata.{release.home}"
    kube = release.kube
    unbound = kube.kubectl("get", "validatingadmissionpolicybinding", policy, "-o", "json").stdout
    kube.kubectl("delete", "validatingadmissionpolicybinding", policy)
    kube.wait_until(
        lambda: patched(release, STRANGER, "large", {"metadata": too_large}).returncode == 0,
        "let large metadata pass",
        seconds=240,
    )
    binding = json.loads(unbound)
    for name in ("resourceVersion", "uid", "creationTimestamp", "generation"):
        binding["metadata"].pop(name, None)
    kube.apply(binding)
    oversized = {"annotations": {"b": "x" * 32_769}, "labels": {f"m{n}": "" for n in range(65)}}
    kube.wait_until(
        lambda: (
            refused
            in patched(
                release, STRANGER, "large", {"metadata": oversized}, "--dry-run=server"
            ).stderr
        ),
        "enforce the policy again",
        seconds=240,
    )
    texts = finalizers(release, "large")
    for change in ([*texts[1:], FINALIZER], texts[1:], []):
        if len(change) <= max(32, len(texts)):
            answer = patched(release, ADMIN, "large", {"metadata": {"finalizers": change}})
            assert answer.returncode == 0, answer.stderr
    assert tried(release, STRANGER, "delete", "clientquota", "large").returncode == 0


STATUSES = {
    "clientquota": {"clusterId": "abc", "keys": [{"key": "producer_byte_rate", "applied": 1}]},
    "quotacluster": {"clusterId": "abc"},
}


@pytest.mark.parametrize("kind", STATUSES)
def test_a_namespace_owner_with_every_right_writes_no_status(release: Placed, kind: str) -> None:
    kube, owner = release.kube, f"owner-of-{release.watched}"
    kube.kubectl(
        "create", "clusterrolebinding", owner, "--clusterrole=cluster-admin", f"--user={owner}"
    )
    cluster = {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "QuotaCluster",
        "metadata": {"name": release.watched},
        "spec": {"bootstrapServers": "broker:9092"},
    }
    kube.apply(cluster)
    name = "first" if kind == "clientquota" else release.watched
    change = {"status": STATUSES[kind]}

    def write(user: str, *more: str) -> Answer:
        text = json.dumps(change)
        return tried(
            release,
            user,
            "patch",
            kind,
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            text,
            *more,
        )

    try:
        kube.wait_until(
            lambda: "only the operator may write" in write(owner, "--dry-run=server").stderr,
            "enforce the policy on statuses",
            seconds=240,
        )
        assert "only the operator may write" in write(owner).stderr
        # The main resource has no status: the API server drops it.
        obj = quota("whole", release.watched) if kind == "clientquota" else cluster
        for verb in ("create", "replace") if kind == "clientquota" else ("replace",):
            answer = tried(release, owner, verb, "-f", "-", text=json.dumps(obj | change))
            assert answer.returncode == 0, answer.stderr
        got = tried(release, owner, "get", kind, str(obj["metadata"]["name"]), "-o", "json")
        assert "status" not in json.loads(got.stdout)
        place = f"namespaces/{release.watched}/" if kind == "clientquota" else ""
        path = f"/apis/kafka-quotas.io/v1alpha1/{place}{kind}s/{name}/status"
        with contextlib.closing(kube.connect(token=kube.token(release.home, FULLNAME))) as api:
            api.call("PATCH", path, change, kind=MERGE_PATCH).need()
    finally:
        kube.kubectl("delete", "quotacluster", release.watched)
        kube.kubectl("delete", "clusterrolebinding", owner)
        tried(
            release,
            "",
            "patch",
            "clientquota",
            "whole",
            "--type=merge",
            "-p",
            '{"metadata":{"finalizers":[]}}',
        )


def test_the_policies_do_not_apply_to_a_namespace_that_is_not_watched(release: Placed) -> None:
    kube = release.kube
    elsewhere = kube.fresh_namespace()
    kube.kubectl(
        "create", "rolebinding", "edit", "--clusterrole=edit", f"--user={STRANGER}", "-n", elsewhere
    )
    kube.apply(quota("second", elsewhere), namespace=elsewhere)
    answer = kube.kubectl(
        "-n",
        elsewhere,
        f"--as={STRANGER}",
        "patch",
        "clientquota",
        "second",
        "--type=merge",
        "-p",
        json.dumps(ADD),
        "--dry-run=server",
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    kube.kubectl(
        "-n",
        elsewhere,
        "patch",
        "clientquota",
        "second",
        "--type=merge",
        "-p",
        '{"metadata":{"finalizers":[]}}',
    )


RAILS = (
    "--set-string",
    "admissionPolicies.guardRails.limits.producerByteRate.min=64Ki",
    "--set-string",
    "admissionPolicies.guardRails.limits.producerByteRate.max=200Mi",
    "--set",
    "admissionPolicies.guardRails.limits.consumerByteRate.max=100000000",
    "--set",
    "admissionPolicies.guardRails.limits.requestPercentage.max=400.5",
    "--set",
    "admissionPolicies.guardRails.limits.connectionCreationRate.max=1k",
    "--set",
    "admissionPolicies.guardRails.protectDefaults=true",
)


def created(release: Placed, user: str, **spec: object) -> Answer:
    text = json.dumps(quota("tried", release.watched, **spec))
    return tried(release, user, "create", "--dry-run=server", "-f", "-", text=text)


@pytest.fixture(scope="module")
def rails(chart_kube: KubeCluster) -> Iterator[Placed]:
    """A release with its guard rails."""
    with placed(chart_kube, *RAILS) as release:
        bind_users(release)

        def enforced() -> bool:
            return (
                "at most 200Mi"
                in created(release, ADMIN, limits={"producerByteRate": "300Mi"}).stderr
            )

        chart_kube.wait_until(enforced, "enforce the guard rails", seconds=240)
        yield release


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"producerByteRate": "200Mi"}, None),
        ({"producerByteRate": 209715201}, "spec.limits.producerByteRate must be at most 200Mi"),
        ({"producerByteRate": "201Mi"}, "spec.limits.producerByteRate must be at most 200Mi"),
        ({"producerByteRate": 65535}, "spec.limits.producerByteRate must be at least 64Ki"),
        ({"producerByteRate": 65536}, None),
        ({"consumerByteRate": 100000000}, None),
        (
            {"consumerByteRate": "100000001"},
            "spec.limits.consumerByteRate must be at most 100000000",
        ),
        ({"requestPercentage": 400.5}, None),
        ({"requestPercentage": 401}, "spec.limits.requestPercentage must be at most 400.5"),
        ({"controllerMutationRate": 1000}, None),
    ],
    ids=str,
)
def test_a_guard_rail_applies_exactly_at_its_bound(
    rails: Placed, limits: object, why: str | None
) -> None:
    answer = created(rails, STRANGER, limits=limits)
    assert (answer.returncode == 0) is (why is None), answer.stderr
    assert why is None or why in answer.stderr


@pytest.mark.parametrize("value", [64, "200Mi", "201Mi", 1024])
def test_limits_for_some_clusters_have_the_same_guard_rails(rails: Placed, value: object) -> None:
    """A document that selects clusters could otherwise declare any value in clusterLimits."""
    selecting = quota(
        "tried",
        rails.watched,
        clusterSelector={"matchLabels": {"stage": "prod"}},
        clusterLimits=[
            {"clusterRef": {"name": "a"}, "limits": {"producerByteRate": "1Mi"}},
            {"clusterRef": {"name": "b"}, "limits": {"producerByteRate": value}},
        ],
    )
    del selecting["spec"]["clusterRef"]
    answer = tried(
        rails, STRANGER, "create", "--dry-run=server", "-f", "-", text=json.dumps(selecting)
    )
    assert (answer.returncode == 0) is (value == "200Mi"), answer.stderr
    assert value == "200Mi" or "spec.limits.producerByteRate must be at" in answer.stderr


@pytest.mark.parametrize(
    "entity",
    [
        {"user": {"default": True}},
        {"user": {"name": "a"}, "clientId": {"default": True}},
        {"clientId": {"default": True}},
    ],
    ids=str,
)
def test_only_users_with_the_right_may_declare_default_entities(
    rails: Placed, entity: object
) -> None:
    assert "declare-defaults" in created(rails, STRANGER, entity=entity).stderr
    assert created(rails, ADMIN, entity=entity).returncode == 0


def test_a_document_from_before_the_guard_rails_can_still_be_released(
    chart_kube: KubeCluster,
) -> None:
    with placed(chart_kube) as old:
        bind_users(old)
        chart_kube.apply(
            quota("large", old.watched, limits={"producerByteRate": "900Mi"}), namespace=old.watched
        )
        scope = ("--set", f"watch.namespaces={{{old.watched}}}")
        with placed(chart_kube, *scope, *RAILS, narrow=False):
            change = {"spec": {"limits": {"producerByteRate": "800Mi"}}}

            def enforced() -> bool:
                return (
                    "at most 200Mi"
                    in patched(old, ADMIN, "large", change, "--dry-run=server").stderr
                )

            chart_kube.wait_until(enforced, "enforce the guard rails", seconds=240)
            assert (
                patched(old, STRANGER, "large", {"metadata": {"labels": {"a": "b"}}}).returncode
                == 0
            )
            assert patched(old, ADMIN, "large", ADD).returncode == 0
            assert patched(old, ADMIN, "large", {"metadata": {"finalizers": []}}).returncode == 0
