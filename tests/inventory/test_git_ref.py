"""The inventory under a git ref: compare-and-swap instead of a lock, one ref per cluster."""

import asyncio
import threading

import pytest

from reconciler.errors import InventoryError, InventoryLocked
from reconciler.inventory.format import encode, safe_name
from reconciler.inventory.git_ref import RefInventory
from reconciler.quota.ownership import OwnershipRecords
from tests.inventory.samples import CHANGES
from tests.servers.processes import HANG_SECONDS


class MemoryRefs:
    """Implements ``ports.RefStore`` in memory; versions are numbers."""

    def __init__(self):
        self.files: dict[str, list[bytes]] = {}
        self.messages: list[str] = []

    def read(self, ref):
        versions = self.files.get(ref)
        return (str(len(versions)), versions[-1]) if versions else None

    def write(self, ref, content, *, expected, message):
        versions = self.files.setdefault(ref, [])
        if str(len(versions)) != (expected or "0"):
            raise InventoryLocked(f"{ref} was written by another process")
        versions.append(content)
        self.messages.append(message)
        return str(len(versions))


class SlowRefs(MemoryRefs):
    """Refs of a remote that answers only when the event loop runs meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.write_begun, self.may_write = threading.Event(), threading.Event()
        self.may_write.set()

    def read(self, ref):
        self._wait_for_the_loop()
        return super().read(ref)

    def write(self, ref, content, *, expected, message):
        self.write_begun.set()
        self._wait_for_the_loop()
        assert self.may_write.wait(HANG_SECONDS)
        return super().write(ref, content, expected=expected, message=message)

    def _wait_for_the_loop(self) -> None:
        answered = threading.Event()
        self._loop.call_soon_threadsafe(answered.set)
        assert answered.wait(HANG_SECONDS), "the event loop waits for git"


def opened(refs: MemoryRefs, command: str = "kquota apply") -> RefInventory:
    return RefInventory(refs, prefix="refs/kquota", command=command)


def test_records_are_stored_for_each_cluster_under_their_own_ref():
    async def story():
        refs = MemoryRefs()
        inventory = opened(refs)
        assert not (await inventory.load("lkc-1")).is_known
        await inventory.write("lkc-1", CHANGES[:1])
        await inventory.write("lkc-1", CHANGES[1:2])
        assert set(refs.files) == {"refs/kquota/lkc-1"}
        assert (await opened(refs, "").load("lkc-1")).records == (
            OwnershipRecords(cluster_id="lkc-1").with_changes(CHANGES[:2]).records
        )
        assert not (await opened(refs, "").load("other")).is_known

    asyncio.run(story())


def test_a_write_that_was_cancelled_after_its_begin_is_followed_by_the_next_one():
    async def story():
        refs = SlowRefs(asyncio.get_running_loop())
        inventory = opened(refs)
        await inventory.load("lkc")
        refs.may_write.clear()
        writing = asyncio.ensure_future(inventory.write("lkc", CHANGES[:1]))
        assert await asyncio.to_thread(refs.write_begun.wait, HANG_SECONDS)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        refs.may_write.set()
        await inventory.load("other")  # after the first write: both use the thread of git
        await inventory.write("lkc", CHANGES[1:2])
        assert len(refs.files["refs/kquota/lkc"]) == 2

    asyncio.run(story())


def test_a_writer_with_a_stale_ref_writes_nothing():
    async def story():
        refs = MemoryRefs()
        slow, fast = opened(refs), opened(refs)
        await slow.load("lkc")
        await fast.load("lkc")
        await fast.write("lkc", CHANGES[:1])
        with pytest.raises(InventoryLocked):
            await slow.write("lkc", CHANGES[1:2])
        assert len(refs.files["refs/kquota/lkc"]) == 1

    asyncio.run(story())


def test_records_of_another_cluster_are_refused():
    async def story():
        refs = MemoryRefs()
        refs.files["refs/kquota/lkc"] = [encode({})]
        with pytest.raises(InventoryError, match="contains records of no cluster"):
            await opened(refs).load("lkc")

    asyncio.run(story())


def test_records_that_were_not_loaded_for_writing_cannot_be_written():
    async def story():
        refs = MemoryRefs()
        reader = opened(refs, "")
        await reader.load("lkc")
        for inventory in (reader, opened(refs)):
            with pytest.raises(InventoryError, match="not loaded for writing"):
                await inventory.write("lkc", CHANGES)
        assert not refs.files

    asyncio.run(story())


def test_the_log_distinguishes_intents_and_results():
    async def story():
        refs = MemoryRefs()
        inventory = opened(refs)
        await inventory.load("lkc")
        await inventory.write("lkc", (*CHANGES[:1], *CHANGES[4:6]))
        await inventory.write("lkc", CHANGES[:1])
        await inventory.write("lkc", [])
        assert refs.messages == [
            "kquota apply: intents for 3 record changes",
            "kquota apply: results for 1 record change",
        ]

    asyncio.run(story())


@pytest.mark.parametrize("odd", ["", "a/b", "..", "x.lock", "a b", "ü", "\ud800"])
def test_an_unusual_cluster_id_gives_a_legal_ref(odd):
    assert safe_name(odd).isalnum()
    assert safe_name(odd) != safe_name(odd + "x")
