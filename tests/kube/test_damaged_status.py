"""A status shows records and is not their source: an edited one is written anew, without other effects."""

import asyncio

from msgspec.structs import replace

from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import record_store
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideSet
from tests.kube.run.test_cluster_reconciler import ALICE, RATE, World, limits
from tests.kube.worlds import resource


def test_a_concurrent_override_is_not_overwritten_with_older_records():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    override = Override(
        entity=ALICE,
        key=RATE,
        value=512.0,
        until=world.kafka.clock.now() + 3600,
        author="night",
        reason="storm",
    )

    def with_override(stored: StoredRecords) -> StoredRecords:
        return replace(stored, owned=stored.owned.with_changes([OverrideSet(override=override)]))

    cluster_id = world.kafka.cluster_id
    _ = asyncio.run(record_store.change(world.api, "ops", cluster_id, with_override))
    # One part is damaged, so the next reconciliation cannot read the records.
    ledger = next(key for key in world.api.objects if key[0] == CONFIG_MAPS.plural)
    stranger = (ledger[0], ledger[1], "stranger")
    labels = {**world.api.objects[ledger]["metadata"]["labels"], "kafka-quotas.io/records": "part"}
    world.api.put(
        CONFIG_MAPS, {"metadata": {"name": "stranger", "namespace": "ops", "labels": labels}}
    )
    world.turn()
    del world.api.objects[stranger]
    stored = asyncio.run(record_store.read(world.api, "ops", cluster_id))
    assert stored.owned.overrides == {(ALICE, RATE): override}
    world.turn()
    assert world.live() == {ALICE: limits(512.0)}
