"""The writers of records: recorded with the first record of a document."""

from reconciler.inventory.cluster_records import no_records
from reconciler.inventory.writers import InventoryWriter
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Intent, IntentEnded, IntentStarted, RecordDropped
from tests.inventory.samples import ALICE, CHANGES, OWNER

ME = InventoryWriter(id="me", description="kquota apply")


def test_records_that_were_emptied_have_a_writer_and_those_of_a_failed_first_apply_have_none():
    intent = Intent(value=1.0, owner=OWNER)
    failed = no_records("lkc")
    for change in (
        IntentStarted(entity=ALICE, key=Key.PRODUCER_BYTE_RATE, intent=intent),
        IntentEnded(entity=ALICE, key=Key.PRODUCER_BYTE_RATE),
    ):
        failed = failed.with_changes([change], ME, now=1.0)
        assert (failed.owned.is_known, failed.writers) == (False, {})
    emptied = failed.with_changes(CHANGES[:1], ME, now=2.0).with_changes(
        [RecordDropped(entity=ALICE, key=Key.PRODUCER_BYTE_RATE)], ME, now=3.0
    )
    assert (emptied.owned.is_known, emptied.owned.records) == (True, {})
    assert emptied.writers["me"].last_seen == 3.0
