"""The file inventory: locks, atomic replacement, no loss by kill -9, damage is an error."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.durable_files import DurableFiles
from reconciler.errors import InventoryError, InventoryLocked
from reconciler.inventory.file import PATIENCE_SECONDS, RETRY_SECONDS, FileInventory, RecordsFile
from reconciler.inventory.file_lock import FileLock
from reconciler.inventory.format import decode, encode
from reconciler.quota.keys import Key
from reconciler.quota.ownership import (
    Owner,
    OwnershipRecords,
    ProjectNamed,
    RecordDropped,
    Recorded,
)
from tests.fakes.clock import FakeClock
from tests.inventory.samples import ALICE, CHANGES

ME = "kquota apply"


def opened(path: Path, command: str = ME, clock: FakeClock | None = None) -> FileInventory:
    return FileInventory(RecordsFile(path), clock=clock or FakeClock(), command=command)


def write(path: Path, cluster_id: str, changes=CHANGES) -> None:
    async def story():
        with opened(path) as inventory:
            await inventory.load(cluster_id)
            await inventory.write(cluster_id, changes)

    asyncio.run(story())


def read(path: Path, cluster_id: str = "lkc") -> OwnershipRecords:
    return asyncio.run(opened(path, "").load(cluster_id))


def test_unknown_records_are_distinguished_from_empty_records(tmp_path: Path):
    path = tmp_path / "inventory.json"
    assert read(path) == OwnershipRecords(cluster_id="lkc", is_known=False)
    write(path, "lkc", CHANGES[:1])
    write(path, "lkc", [RecordDropped(entity=ALICE, key=Key.PRODUCER_BYTE_RATE)])
    assert read(path) == OwnershipRecords(cluster_id="lkc", is_known=True)


@pytest.mark.parametrize(
    ("changes", "project", "cluster_id"),
    [(CHANGES, "payments/prod", "lkc"), (CHANGES, "shop/prod", None)],
)
def test_the_cluster_of_a_project_is_the_one_in_which_its_documents_were_applied(
    tmp_path: Path, changes, project, cluster_id
):
    path, named = tmp_path / "inventory.json", ProjectNamed(project="payments/prod")
    write(path, "lkc", [named, *changes])
    assert RecordsFile(path).cluster_of(project) == cluster_id
    write(path, "replacement", [named, *CHANGES])
    with pytest.raises(InventoryError, match="of lkc and replacement") as caught:
        _ = RecordsFile(path).cluster_of("payments/prod")
    assert "expectedClusterId" in caught.value.hint


def test_records_are_never_used_for_another_cluster(tmp_path: Path):
    path = tmp_path / "inventory.json"
    write(path, "lkc")
    assert read(path, "other") == OwnershipRecords(cluster_id="other", is_known=False)


def test_a_write_waits_at_most_ten_seconds_for_another_process(tmp_path: Path):
    path = tmp_path / "inventory.json"
    clock = FakeClock()

    async def story():
        with (
            FileLock(tmp_path / ".inventory.json.lock", command="another", now=0.0),
            opened(path, ME, clock) as inventory,
        ):
            await inventory.load("lkc")
            with pytest.raises(InventoryLocked, match="is locked by another, process"):
                await inventory.write("lkc", CHANGES)

    asyncio.run(story())
    assert PATIENCE_SECONDS < sum(clock.slept) < PATIENCE_SECONDS + 2 * RETRY_SECONDS
    assert not path.exists()


def test_a_second_writer_of_a_cluster_is_refused_with_the_name_of_the_first(tmp_path: Path):
    path = tmp_path / "inventory.json"

    async def story():
        with opened(path) as first:
            await first.load("lkc")
            with (
                opened(path, "kquota drift") as second,
                pytest.raises(InventoryLocked, match=rf"kquota apply, process {os.getpid()}"),
            ):
                await second.load("lkc")
            assert not (await opened(path, "").load("lkc")).is_known
        with opened(path, "kquota drift") as second:
            await second.load("lkc")

    asyncio.run(story())


def test_a_reader_cannot_write(tmp_path: Path):
    with pytest.raises(InventoryError, match="not opened to write"):
        asyncio.run(opened(tmp_path / "inventory.json", "").write("lkc", CHANGES))


def test_an_empty_change_does_not_write_the_file(tmp_path: Path):
    path = tmp_path / "inventory.json"
    write(path, "lkc")
    before = path.stat()
    write(path, "lkc", [])
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_the_file_is_private_and_no_temporary_file_remains(tmp_path: Path):
    path = tmp_path / "inventory.json"
    write(path, "lkc")
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        ".inventory.json.lkc.lock",
        ".inventory.json.lock",
        "inventory.json",
    ]


def test_a_link_to_the_file_remains_a_link(tmp_path: Path):
    (tmp_path / "real").mkdir()
    path = tmp_path / "inventory.json"
    path.symlink_to("real/there.json")
    write(path, "lkc")
    assert path.is_symlink()
    assert read(tmp_path / "real" / "there.json").is_known


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    "second_name", ["inventory.json", "link", "chain", "folder/inventory.json"]
)
@pytest.mark.parametrize("first_name", ["inventory.json", "link", "chain", "folder/inventory.json"])
def test_writers_that_reach_one_file_by_any_links_exclude_each_other(
    tmp_path: Path, first_name: str, second_name: str, exists: bool
):
    """With two locks each would replace the records of the other, and limits would become unmanaged."""
    (tmp_path / "link").symlink_to("inventory.json")
    (tmp_path / "chain").symlink_to(tmp_path / "link")
    (tmp_path / "folder").symlink_to(tmp_path)
    if exists:
        write(tmp_path / "inventory.json", "lkc")

    async def story():
        with opened(tmp_path / first_name) as first, opened(tmp_path / second_name) as second:
            await first.load("lkc")
            with pytest.raises(InventoryLocked):
                await second.load("lkc")

    asyncio.run(story())


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"kind":"kquota-inventory","format":2,"clusters":{}}']
)
def test_a_damaged_file_is_an_error_and_is_not_overwritten(tmp_path: Path, content: bytes):
    path = tmp_path / "inventory.json"
    path.write_bytes(content)
    with pytest.raises(InventoryError):
        read(path)
    with pytest.raises(InventoryError):
        write(path, "lkc")
    assert path.read_bytes() == content


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path):
    with pytest.raises(InventoryError, match="cannot be made"):
        write(tmp_path / "no" / "inventory.json", "lkc")


WRITE_FOR_EVER = """
import asyncio, sys
from pathlib import Path
from reconciler.inventory.file import FileInventory
from reconciler.inventory.file import RecordsFile
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, Recorded
from tests.fakes.clock import FakeClock

async def story():
    owner = Owner(document="a/b")
    with FileInventory(RecordsFile(Path(sys.argv[1])), clock=FakeClock(), command="x") as inventory:
        await inventory.load("lkc")
        number = 0
        while True:
            number += 1
            await inventory.write("lkc", [
                Recorded(entity=entity(user=f"u{i}"), key=Key.PRODUCER_BYTE_RATE, value=float(number), owner=owner)
                for i in range(300)
            ])
            print(number, flush=True)

asyncio.run(story())
"""


@pytest.mark.parametrize("writes", [1, 2, 5, 9])
def test_kill_9_at_any_time_leaves_the_old_or_the_new_records_complete(tmp_path: Path, writes: int):
    path = tmp_path / "inventory.json"
    with subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        done = 0
        while done < writes:
            done = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        remaining_text, _ = process.communicate()
    done = int(([str(done), *remaining_text.split()])[-1])
    values = {record.applied[0] for record in read(path).records.values()}
    assert len(read(path).records) == 300
    assert values in ({float(done)}, {float(done + 1)})
    write(
        path,
        "lkc",
        [Recorded(entity=ALICE, key=Key.PRODUCER_BYTE_RATE, value=1.0, owner=Owner(document=""))],
    )
    assert len(read(path).records) == 301


def test_a_write_removes_temporary_files_of_a_killed_one(tmp_path: Path):
    leftover = tmp_path / ".inventory.json.x1.new"
    leftover.write_bytes(b"half")
    write(tmp_path / "inventory.json", "lkc")
    assert not leftover.exists()


class CountedReads(DurableFiles):
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def read(self, path: Path, *, max_bytes: int) -> bytes:
        self.count += 1
        return super().read(path, max_bytes=max_bytes)


def records(cluster_id: str, length: int) -> OwnershipRecords:
    return OwnershipRecords(cluster_id=cluster_id).with_changes(CHANGES[:length])


def test_a_run_reads_the_file_once_however_many_clusters_it_writes(tmp_path):
    path = tmp_path / "records.json"
    path.write_bytes(encode({"another": records("another", 1)}))
    files = CountedReads()
    file = RecordsFile(path, files=files)
    for number in range(20):
        cluster_id = f"cluster-{number}"
        assert cluster_id not in file.read()
        file.replace(cluster_id, records(cluster_id, 1))
    assert files.count == 1
    assert len(decode(path.read_bytes(), location="records")) == 21


WRITES = st.lists(
    st.tuples(
        st.sampled_from(("a", "b", "c")), st.integers(1, len(CHANGES)), st.sampled_from((0, 1))
    ),
    min_size=1,
    max_size=12,
)


@given(WRITES)
def test_after_each_write_of_either_process_the_file_is_the_encoding_of_all_clusters(
    tmp_path_factory, writes
):
    path = tmp_path_factory.mktemp("records") / "records.json"
    processes = RecordsFile(path), RecordsFile(path)
    expected: dict[str, OwnershipRecords] = {}
    for cluster_id, length, process in writes:
        file = processes[process]
        assert encode(file.read()) == encode(expected)
        expected[cluster_id] = records(cluster_id, length)
        file.replace(cluster_id, expected[cluster_id])
        assert path.read_bytes() == encode(expected)
