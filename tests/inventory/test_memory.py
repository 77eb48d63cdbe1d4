"""The inventory in memory: it exists after the first write."""

import asyncio

from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.ownership import OwnershipRecords
from tests.inventory.samples import CHANGES


def test_written_records_are_known_and_all_others_are_unknown():
    async def story():
        inventory = MemoryInventory()
        assert await inventory.load("lkc") == OwnershipRecords(cluster_id="lkc", is_known=False)
        await inventory.write("lkc", [])
        assert not (await inventory.load("lkc")).is_known
        await inventory.write("lkc", CHANGES[:2])
        assert await inventory.load("lkc") == OwnershipRecords(cluster_id="lkc").with_changes(
            CHANGES[:2]
        )
        assert not (await inventory.load("other")).is_known
        assert inventory.written == [CHANGES[:2]]

    asyncio.run(story())
