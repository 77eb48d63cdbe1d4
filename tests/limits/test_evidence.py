"""Tables that cost far more than their size, with the memory of the operator's pod: their files are valid."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reconciler.evidence.store import stored_days
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.store.evidence import busy, published
from tests.limits.process_limits import Prepared, assert_bounded

CLUSTER = "evidence-cluster"
END_MS = 20_000 * DAY_MS
READ = """
import sys
from reconciler.errors import KquotaError
from reconciler.evidence.store import published_evidence as evidence
from reconciler.evidence.store.files.address import parsed
from reconciler.evidence.store.files.table_reader import TableReader
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import bucket_of
def main(folder, cluster, end_ms):
    try:
        found = evidence.opened(TableReader(parsed(folder)), cluster, int(end_ms), 10**9)
        if found.note.stale:
            sys.exit(found.note.stale)
        print(found.series(QuotaType.PRODUCE, [bucket_of("alice")]).keys())
    except KquotaError as error:
        sys.exit(f"{error}: {error.hint}")
"""


@pytest.fixture(scope="module")
def reader() -> Iterator[Prepared]:
    with Prepared(READ) as prepared:
        yield prepared


def written(folder: Path, *, group: int | None = None, series_text: str | None = None) -> None:
    """Replace the file of a day by one with one row many times, or with another list of series in its footer."""
    path = next(folder.glob(f"{USAGE_SAMPLE.name}/**/*.parquet"))
    rows = pq.read_table(path, partitioning=None)
    metadata = dict(rows.schema.metadata)
    if series_text is not None:
        metadata[stored_days.SERIES_KEY.encode()] = series_text.encode()
    if group is not None:
        rows = rows.take(pa.array([0] * group))
    pq.write_table(
        rows.replace_schema_metadata(metadata), path, row_group_size=group, compression="zstd"
    )


def large_group(folder: Path) -> None:
    written(folder, group=3_000_000)


def series_text(size: int) -> str:
    return base64.b64encode(pa.compress(b"\0" * size, "zstd", asbytes=True)).decode()


def large_list(folder: Path) -> None:
    written(folder, series_text=f"500000000:{series_text(500_000_000)}")


def expanding_list(folder: Path) -> None:
    written(folder, series_text=f"1000:{series_text(500_000_000)}")


ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a row group of 3 million samples": (large_group, "row groups of more than 131,072 rows"),
    "a list of series that is large": (large_list, "the list of its series is damaged"),
    "a list of series that is larger than it says": (
        expanding_list,
        "the list of its series is damaged",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_evidence_is_refused_before_it_is_unpacked(
    name: str, reader: Prepared, tmp_path: Path
) -> None:
    attack, words = ATTACKS[name]
    published(tmp_path, CLUSTER, {"alice": busy(100)}, end_ms=END_MS, days=1, brokers=("1",))
    attack(tmp_path)
    run = reader.run(str(tmp_path), CLUSTER, str(END_MS))
    assert_bounded(run, words=words)


def test_unmodified_evidence_is_read(reader: Prepared, tmp_path: Path) -> None:
    published(tmp_path, CLUSTER, {"alice": busy(100)}, end_ms=END_MS, days=1, brokers=("1",))
    run = reader.run(str(tmp_path), CLUSTER, str(END_MS))
    assert_bounded(run, exit_code=0)
    assert "alice" in run.stdout
