"""The inventory in memory: it exists after the first write."""

import asyncio

import pytest

from reconciler.errors import InventoryError
from reconciler.inventory.format import encode
from reconciler.inventory.memory import FixedInventory
from reconciler.quota.ownership import OwnershipRecords
from tests.inventory.samples import CHANGES


def test_records_of_another_cluster_are_unknown() -> None:
    owned = OwnershipRecords(cluster_id="lkc-1").with_changes(CHANGES)
    content = encode({"lkc-1": owned})
    inventory = FixedInventory(content, location="records.json")
    assert asyncio.run(inventory.load("lkc-1")).is_known
    assert not asyncio.run(inventory.load("lkc-2")).is_known
    assert not asyncio.run(FixedInventory(None, location="none").load("lkc-1")).is_known


def test_a_damaged_document_is_refused_with_its_name() -> None:
    with pytest.raises(InventoryError, match=r"records\.json"):
        FixedInventory(b'{"kind": "kquota-inventory", ', location="records.json")


def test_a_read_only_inventory_refuses_changes() -> None:
    inventory = FixedInventory(None, location="HEAD~1:records.json")
    asyncio.run(inventory.write("lkc-1", ()))
    with pytest.raises(InventoryError, match=r"HEAD~1:records\.json cannot be written for 'lkc-1'"):
        asyncio.run(inventory.write("lkc-1", [object()]))
