import hashlib
import threading
from pathlib import Path

import numpy as np
import pytest

from reconciler.errors import LakeDamaged
from reconciler.evidence.store.files import parquet_files
from reconciler.evidence.store.files.row_groups import RowGroupFile
from reconciler.evidence.store.manifest import UnitFile
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.store.rows import Watched, usage

PATH = "samples.parquet"
COLUMNS = ("user", "ts_ms", "rate_units")


class ThreadWatch(Watched):
    """A store that records which threads read ranges."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.threads: set[int] = set()

    def get_range(self, path: str, start: int, end: int) -> bytes:
        self.threads.add(threading.get_ident())
        return super().get_range(path, start, end)


@pytest.fixture
def store(tmp_path: Path) -> ThreadWatch:
    return ThreadWatch(tmp_path)


def stored(store: Watched, content: bytes, rows: int) -> UnitFile:
    store.put(PATH, content)
    return UnitFile(
        path=PATH, size=len(content), rows=rows, sha256=hashlib.sha256(content).hexdigest()
    )


def many_samples(store: Watched) -> UnitFile:
    """A file of several row groups that is larger than the part that is fetched from its end."""
    rates = np.random.default_rng(7).integers(0, 2**40, 20_000).tolist()
    rows = usage(users=("alice", "bob", "carol", "dave"), rates=rates, step=1)
    return stored(store, parquet_files.write_parquet(USAGE_SAMPLE, rows), rows.num_rows)


def test_arrow_reads_on_the_calling_thread_only(store: ThreadWatch) -> None:
    """A thread of Arrow that calls Python while the process ends would abort it (apache/arrow#36389)."""
    file = RowGroupFile(store, many_samples(store), USAGE_SAMPLE)
    rows = sum(batch.num_rows for batch in file.batches(COLUMNS))
    assert rows == file.rows == 80_000
    assert store.threads == {threading.get_ident()}


def test_a_row_group_is_fetched_in_few_requests(store: ThreadWatch) -> None:
    file = RowGroupFile(store, many_samples(store), USAGE_SAMPLE)
    store.ranges.clear()
    rows = file.read([0], COLUMNS)
    assert rows.num_rows == parquet_files.ROW_GROUP
    assert 1 <= len(store.ranges) <= len(COLUMNS)


def test_rows_equal_the_written_ones(store: ThreadWatch) -> None:
    samples = usage(users=("alice", "bob"), rates=(3, 1, 2))
    file = RowGroupFile(
        store,
        stored(store, parquet_files.write_parquet(USAGE_SAMPLE, samples), samples.num_rows),
        USAGE_SAMPLE,
    )
    rows = file.read([0], COLUMNS)
    assert rows.column("user").to_pylist() == ["alice"] * 3 + ["bob"] * 3
    assert rows.column("rate_units").to_pylist() == [3, 1, 2] * 2


def test_a_modified_page_is_named_with_its_file(store: ThreadWatch) -> None:
    unit_file = many_samples(store)
    file = RowGroupFile(store, unit_file, USAGE_SAMPLE)
    content = bytearray(store.get(PATH))
    content[200:260] = bytes(60)
    store.put(PATH, bytes(content))
    with pytest.raises(LakeDamaged, match=PATH):
        _ = list(file.batches(USAGE_SAMPLE.names))


def test_a_row_group_that_kquota_does_not_write_is_refused_before_it_is_decoded(
    store: ThreadWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit_file = many_samples(store)
    store.ranges.clear()
    monkeypatch.setattr(parquet_files, "ROW_GROUP", 30_000)
    with pytest.raises(LakeDamaged, match=rf"{PATH}.*row groups of up to 65,536 rows"):
        RowGroupFile(store, unit_file, USAGE_SAMPLE)
    monkeypatch.undo()
    monkeypatch.setattr(parquet_files, "MOST_GROUP_BYTES", 1000)
    with pytest.raises(LakeDamaged, match=r"1,000 bytes are allowed"):
        RowGroupFile(store, unit_file, USAGE_SAMPLE)
    assert len(store.ranges) == 2
