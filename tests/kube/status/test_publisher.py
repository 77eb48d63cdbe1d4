"""Progress of a long reconciliation, which is published before its result."""

import asyncio

import pytest

from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.publisher import StatusPublisher
from reconciler.kube.status.writer import ResourceWriter
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.kube.worlds import KubeWorld, resource

DOCUMENTS = 60
"""More than the number of concurrent writes."""


@pytest.mark.parametrize("ends_after", [0, 5, DOCUMENTS])
def test_documents_are_pending_only_while_the_reconciliation_runs(
    ends_after: int,
) -> None:
    world = KubeWorld()
    for number in range(DOCUMENTS):
        name = f"user{number}"
        world.put(resource(name, entity(user=name), {Key.PRODUCER_BYTE_RATE: 2048}))
    publisher = StatusPublisher(
        "prod",
        writes=ResourceWriter(world.api, cache=world.cache, clock=world.clock, identity="op"),
        inventory=world.inventory,
        clock=world.clock,
        deletion_timeout=600.0,
    )
    eligibilities = {
        document: assess_eligibility(obj, {}) for document, obj in world.objects.items()
    }

    def written() -> int:
        return sum(bool(obj.get("status")) for obj in world.objects.values())

    asyncio.run(publisher.pending(eligibilities, is_over=lambda: written() >= ends_after))
    if ends_after == DOCUMENTS:
        assert written() == DOCUMENTS
    else:
        assert ends_after <= written() < DOCUMENTS
    assert ends_after or not written()
