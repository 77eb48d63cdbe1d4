"""--since REV: the declarations at REV count as last applied, unless an inventory has a record."""

import asyncio

import pytest

from reconciler.errors import InventoryLocked
from reconciler.inventory.git_ref import ref_of
from reconciler.inventory.memory import MemoryInventory
from reconciler.inventory.revision import RevisionInventory, derive_records
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import (
    Intent,
    IntentEnded,
    IntentStarted,
    Override,
    OverrideSet,
    Owner,
    OwnershipRecord,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.policy import Cause, DeletionPolicy, Policy, Rules
from reconciler.quota.state import QuotaState
from tests.inventory.test_git_ref import MemoryRefs, opened

ALICE, BOB = entity(user="alice"), entity(user="bob")
RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE


def declaration(document: str, subject, *, rate=None, share=None, policy=None) -> Declaration:
    return Declaration(
        document=document,
        entity=subject,
        limits=(rate, None, share, None, None),
        deletion_policy=policy,
    )


THEN = merge(
    [
        declaration("a/alice", ALICE, rate=10.0, policy=DeletionPolicy.DELETE),
        declaration("a/alice-2", ALICE, share=5.0),
        declaration("a/bob", BOB, rate=7.0),
    ]
)


def test_every_pair_of_the_revision_counts_as_applied_with_its_own_owner():
    delete, plain, bob = (
        Owner(document="a/alice", deletion_policy=DeletionPolicy.DELETE),
        Owner(document="a/alice-2"),
        Owner(document="a/bob"),
    )
    assert derive_records("lkc", THEN).records == {
        ALICE: OwnershipRecord((10.0, None, 5.0, None, None), (delete, None, plain, None, None)),
        BOB: OwnershipRecord((7.0, None, None, None, None), (bob, None, None, None, None)),
    }


def test_a_pair_removed_since_the_revision_is_removed_only_if_its_live_value_is_unchanged():
    live = QuotaState(limits={ALICE: (10.0, None, 6.0, None, None)})
    plan = compare(
        desired=merge([declaration("a/bob", BOB, rate=7.0)]),
        owned=derive_records("lkc", THEN),
        live=live,
        rules=Rules(policy=Policy.SYNC, sync_confirmed=True),
    )
    assert [(c.entity, c.key, c.after) for c in plan.changes if c.removes] == [(ALICE, RATE, None)]
    assert [f.key for f in plan.findings_for(Cause.CHANGED_BY_ANOTHER)] == [SHARE]


def test_an_inventory_that_knows_the_cluster_takes_precedence_over_the_revision():
    async def story():
        real = OwnershipRecords(cluster_id="lkc")
        assert await RevisionInventory(THEN, inventory=MemoryInventory(real)).load("lkc") == real
        unknown = RevisionInventory(THEN, inventory=MemoryInventory())
        assert await unknown.load("lkc") == derive_records("lkc", THEN)

    asyncio.run(story())


def test_an_override_and_a_write_without_a_result_take_precedence_over_the_revision():
    override = Override(entity=ALICE, key=RATE, value=1.0, until=9.0, author="me", reason="night")
    changes = (
        OverrideSet(override=override),
        Recorded(entity=ALICE, key=RATE, value=1.0, owner=Owner(document="")),
        IntentStarted(
            entity=BOB, key=RATE, intent=Intent(value=7.0, owner=Owner(document="a/bob"))
        ),
    )

    async def story():
        real = MemoryInventory()
        await real.write("lkc", changes)
        inventory = RevisionInventory(THEN, inventory=real)
        derived = (
            derive_records("lkc", THEN).records[ALICE].with_pair(RATE, 1.0, Owner(document=""))
        )
        before = await inventory.load("lkc")
        assert before.records == {ALICE: derived}
        assert before.overrides == {(ALICE, RATE): override}
        assert list(before.intents) == [(BOB, RATE)]
        await inventory.write("lkc", [IntentEnded(entity=BOB, key=RATE)])
        assert await real.load("lkc") == before.with_changes([IntentEnded(entity=BOB, key=RATE)])

    asyncio.run(story())


def test_the_first_write_includes_the_records_of_the_revision():
    async def story():
        real = MemoryInventory()
        inventory = RevisionInventory(THEN, inventory=real)
        new = Recorded(entity=BOB, key=SHARE, value=1.0, owner=Owner(document="a/bob"))
        assert await inventory.load("lkc") == derive_records("lkc", THEN)
        await inventory.write("lkc", [])
        assert not (await real.load("lkc")).is_known
        await inventory.write("lkc", [new])
        assert await real.load("lkc") == derive_records("lkc", THEN).with_changes([new])

    asyncio.run(story())


def test_of_two_runs_without_records_the_second_writes_nothing_into_a_git_ref():
    """The first may have sent its changes; the second planned without them."""

    async def story():
        refs = MemoryRefs()
        slow, fast = (RevisionInventory(THEN, inventory=opened(refs)) for _ in range(2))
        for inventory in (slow, fast):
            await inventory.load("lkc")
        new = Recorded(entity=BOB, key=SHARE, value=1.0, owner=Owner(document="a/bob"))
        await fast.write("lkc", [new])
        with pytest.raises(InventoryLocked):
            await slow.write("lkc", [new])
        assert len(refs.files[ref_of("lkc")]) == 1

    asyncio.run(story())
