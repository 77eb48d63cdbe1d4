"""A tenant who writes as much as the API server accepts is refused or left out; all others are reconciled."""

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.kube.e2e.world import World, eventually
from tests.servers.kube.api import Answer

pytestmark = pytest.mark.integration

DOCUMENTS = 60
CONTROLS = [chr(code) for code in range(1, 32)]


def longest_names(count: int) -> Iterator[str]:
    """The longest names that Kafka accepts, six times as long in JSON, with little compression."""
    dice = random.Random(4)
    for _ in range(count):
        yield "".join(dice.choices(CONTROLS, k=32_767))


def create(world: World, name: str, user: str, *, namespace: str = "") -> Answer:
    path = f"/apis/kafka-quotas.io/v1alpha1/namespaces/{namespace or world.team}/clientquotas"
    return world.kube.api.call("POST", path, world.document(name, user=user))


def reasons(world: World) -> Counter[str]:
    """Reasons of the Ready conditions of the team's documents."""
    path = f"/apis/kafka-quotas.io/v1alpha1/namespaces/{world.team}/clientquotas"
    counter: Counter[str] = Counter()
    for obj in world.kube.api.get(path).need()["items"]:
        ready = [
            condition
            for condition in obj.get("status", {}).get("conditions", [])
            if condition["type"] == "Ready"
        ]
        counter[ready[0]["reason"] if ready else ""] += 1
    return counter


def test_many_documents_of_a_namespace_stop_neither_the_operator_nor_other_tenants(
    world: World,
) -> None:
    world.cluster(interval="2s")
    refused = create(world, "today", next(longest_names(1)))
    assert refused.status == 422
    assert "Too long: may not be more than 512" in refused.message
    for number in range(DOCUMENTS):
        create(world, f"long-{number:02}", f"{number:02}" + "x" * 510).need()

    # Fewer documents of each namespace are reconciled: the excess reports it, and no other namespace is affected.
    second_namespace = world.kube.fresh_namespace()
    operator = world.start("--max-documents-per-namespace=10")
    eventually(
        lambda: reasons(world) == {"Synced": 10, "NamespaceLimit": DOCUMENTS - 10},
        what="the excess to say NamespaceLimit",
    )
    world.quota("bob", namespace=second_namespace)
    world.becomes("bob", "Synced", namespace=second_namespace)
    assert operator.metric("kquota_leader") == 1.0
    assert "Traceback" not in operator.log.read_text(encoding="utf-8")
    path = f"/apis/kafka-quotas.io/v1alpha1/namespaces/{world.team}/clientquotas"
    world.kube.api.call("DELETE", path).need()
