"""Grants: what each namespace may declare, what its statuses show and hide, and the effect of a withdrawn grant."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.e2e.seeing import has_finalizer, orphans, sent, through, watched_kafka
from tests.kube.e2e.world import ROOT, World, eventually
from tests.servers import raw_quotas

pytestmark = pytest.mark.integration

MIB = 1048576.0
SUSPENDED: dict[str, Any] = {"suspend": True}


def as_documented(payments: str, platform: str) -> list[Any]:
    """The tenants of docs/tenancy.md, for two other namespaces."""
    page = (ROOT / "docs" / "tenancy.md").read_text(encoding="utf-8")
    spec = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])["spec"]
    first, second = spec["tenants"]
    assert (first["namespaces"], second["namespaces"]) == (["payments"], ["platform"])
    return [{**first, "namespaces": [payments]}, {**second, "namespaces": [platform]}]


def member(world: World, namespace: str) -> Path:
    """A kubeconfig of a user with the role `edit` in one namespace, like a team member."""
    world.kube.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "member"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "member"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "edit",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "member", "namespace": namespace}],
        },
        namespace=namespace,
    )
    return world.kube.kubeconfig_for(namespace, "member")


def seen_by(world: World, whose: Path, namespace: str) -> str:
    """All objects about quotas that a team member can read."""
    completed = world.kube.kubectl(
        "get", "clientquotas,events", "-n", namespace, "-o", "yaml", kubeconfig=whose
    )
    return completed.stdout


def message(world: World, name: str, namespace: str = "") -> str:
    return str(world.condition(name, "Ready", namespace=namespace)["message"])


def test_each_namespace_declares_what_it_was_granted_and_is_not_informed_of_others(
    world: World,
) -> None:
    platform, rival, stranger = (world.kube.fresh_namespace() for _ in range(3))
    tenants = as_documented(world.team, platform)
    tenants.append(
        {
            "namespaces": [rival],
            "priority": -20,
            "entities": [{"user": {"exact": "payments-shared"}}],
        }
    )
    tenants[1]["entities"].append({"forms": ["clientId"], "clientId": {"prefix": "batch"}})
    granted = {
        "mine": world.document("mine", user="payments-mine", deletionPolicy="Delete"),
        "shared": world.document("shared", user="payments-shared"),
        "paused": world.document("paused", user="payments-paused", **SUSPENDED),
        "both": world.document(
            "both", entity={"user": {"name": "payments-mine"}, "clientId": {"name": "app"}}
        ),
    }
    refused = {
        "billing": world.document("billing", user="billing"),
        "client": world.document("client", entity={"clientId": {"name": "app"}}),
        "everybody": world.document("everybody", entity={"user": {"default": True}}),
        "address": world.document(
            "address", entity={"ip": {"name": "10.0.0.7"}}, limits={"connectionCreationRate": 9}
        ),
        "large": world.document("large", user="payments-l", limits={"producerByteRate": "51Mi"}),
    }
    with watched_kafka(world) as proxy:
        world.cluster(bootstrapServers=through(proxy), tenants=tenants)
        world.start()
        world.kube.apply(*granted.values(), *refused.values(), namespace=world.team)
        for name in granted:
            world.becomes(name, "Synced")
        for name in refused:
            world.becomes(name, "NotGranted")
            assert world.condition(name, "Stalled")["status"] == "True"
        assert "no grant for entities of the form" in message(world, "client")
        assert "above the granted maximum 52428800" in message(world, "large")
        assert "suspend is not granted" in message(world, "paused")
        assert set(world.live()) == {"payments-mine", "payments-shared", "payments-paused"}

        # Another namespace may declare client-ids, and may not remove its limits.
        world.quota(
            "of-platform",
            namespace=platform,
            entity={"clientId": {"name": "batch"}},
            deletionPolicy="Delete",
        )
        obj = world.becomes("of-platform", "Synced", namespace=platform)
        assert "Delete is not granted" in message(world, "of-platform", platform)
        assert not has_finalizer(obj)

        # A tenant declares a limit of another one: the message is about its own document, and nothing changes.
        before = sent(proxy)
        world.quota(
            "duplicate",
            user="payments-mine",
            namespace=stranger,
            limits={"producerByteRate": "9Mi"},
            deletionPolicy="Delete",
        )
        world.becomes("duplicate", "NotGranted", namespace=stranger)
        world.delete("duplicate", namespace=stranger)
        eventually(lambda: not world.get("duplicate", namespace=stranger))
        assert (world.reason("mine"), sent(proxy)) == ("Synced", before)

        # The smaller priority wins, also over an earlier document.
        world.quota(
            "winner", user="payments-shared", namespace=rival, limits={"producerByteRate": "7Mi"}
        )
        world.becomes("winner", "Synced", namespace=rival)
        world.becomes("shared", "Conflict")
        assert world.live()["payments-shared"] == {"producer_byte_rate": 7 * MIB}

        text = seen_by(world, member(world, world.team), world.team)
        assert "Conflict" in text
        assert "NotGranted" in text
        for secret in (platform, rival, stranger, "of-platform", "winner", "duplicate"):
            assert secret not in text, f"{secret} belongs to another tenant"
        whose = world.kube.kubeconfig_for(world.team, "member")
        for kind, where in (("clientquotas", rival), ("configmaps", world.place.namespace)):
            denied = world.kube.kubectl("get", kind, "-n", where, kubeconfig=whose, check=False)
            assert "forbidden" in denied.stderr.lower()

        _deleting(world, platform)
        _revoked(world, tenants[1:])


def _deleting(world: World, platform: str) -> None:
    """The effect of `allow: [Delete]`."""
    world.delete("of-platform", namespace=platform)
    world.delete("both")
    eventually(lambda: not world.get("of-platform", namespace=platform))
    eventually(lambda: not world.get("both"))
    eventually(lambda: len(orphans(world)) == 2)
    assert orphans(world) == {
        "client-id=batch producer_byte_rate",
        "user=payments-mine,client-id=app producer_byte_rate",
    }


def _revoked(world: World, tenants: list[Any]) -> None:
    """The grant is withdrawn: nothing is removed or written; when it is granted again, reconciliation continues."""
    before = raw_quotas.describe(world.kafka.port())
    world.cluster(bootstrapServers=_servers(world), tenants=tenants)
    for name in ("mine", "shared", "paused"):
        world.becomes(name, "NotGranted")
    world.quota(
        "mine", user="payments-mine", limits={"producerByteRate": "5Mi"}, deletionPolicy="Delete"
    )
    world.becomes("mine", "NotGranted")
    assert raw_quotas.describe(world.kafka.port()) == before
    grants = as_documented(world.team, tenants[0]["namespaces"][0])
    world.cluster(bootstrapServers=_servers(world), tenants=grants)
    world.becomes("mine", "Synced")
    assert world.live()["payments-mine"] == {"producer_byte_rate": 5 * MIB}
    world.delete("mine")
    eventually(lambda: not world.get("mine"))
    assert "payments-mine" not in world.live()


def _servers(world: World) -> str:
    return str(world.get("prod", kind="quotacluster")["spec"]["bootstrapServers"])
