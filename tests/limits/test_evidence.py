"""Evidence that costs far more than its size, with the memory of the operator's pod: its digests are valid."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reconciler.evidence.store.files.parquet_files import ROW_GROUP, end_of
from reconciler.evidence.store.latest_pointer import BUCKET_SEEN, TABLES
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import USAGE_SAMPLE, Table
from tests.evidence.store.evidence import busy, published
from tests.limits.process_limits import Prepared, assert_bounded

CLUSTER = "evidence-cluster"
END_MS = 20_000 * DAY_MS
READ = """
import sys
from pathlib import Path
import pyarrow.compute as pc
from reconciler.errors import KquotaError
from reconciler.evidence.store import published_evidence as evidence
from reconciler.evidence.store.files import object_store as store, parquet_files as parquet
from reconciler.evidence.store.latest_pointer import BUCKET_SEEN
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import bucket_of
def read(folder, cluster, end_ms):
    found = evidence.opened(store.opened(folder), cluster, int(end_ms), 10**9)
    if found.note.stale:
        sys.exit(found.note.stale)
    print(found.series(QuotaType.PRODUCE, [bucket_of("alice")]).keys())
def read_with_filter(file):
    content = Path(file).read_bytes()
    parquet.read(BUCKET_SEEN, content, path=file, columns=["user"], row_filter=pc.field("user") != "")
def main(*arguments):
    try:
        (read if len(arguments) == 3 else read_with_filter)(*arguments)
    except KquotaError as error:
        sys.exit(f"{error}: {error.hint}")
"""


@pytest.fixture(scope="module")
def reader() -> Iterator[Prepared]:
    with Prepared(READ) as prepared:
        yield prepared


def repeated(table: Table, folder: Path, rows: int, **values: object) -> dict[str, Any]:
    """Replace the files of a table by one with many equal rows; return the entry for LATEST.json."""
    path = next(folder.glob(f"**/{table.name}*/**/*.parquet"), None)
    assert path is not None, list(folder.rglob("*"))
    first = pq.read_table(path).slice(0, 1)
    for column, value in values.items():
        at = first.schema.get_field_index(column)
        of_type = first.schema.field(at)
        first = first.set_column(at, of_type, pa.array([value], of_type.type))
    for at, of_type in enumerate(first.schema):
        if pa.types.is_string(
            of_type.type
        ):  # otherwise each row had its own copy in this process, too
            coded = first.column(at).dictionary_encode()
            first = first.set_column(at, of_type.with_type(coded.type), coded)
    block = first.take(pa.array([0] * min(rows, ROW_GROUP)))
    with pq.ParquetWriter(path, block.schema, compression="zstd") as writer:
        for _ in range(rows // block.num_rows):
            writer.write_table(block)
    content = path.read_bytes()
    return {
        "path": str(path.relative_to(folder)),
        "size": len(content),
        "rows": rows // block.num_rows * block.num_rows,
        "sha256": hashlib.sha256(content).hexdigest(),
        "end_sha256": hashlib.sha256(end_of(content)).hexdigest(),
    }


def described(folder: Path, table: Table, entry: dict[str, Any], **more: Any) -> None:
    """LATEST.json with another entry for one file."""
    latest = next(folder.rglob("LATEST.json"))
    document = json.loads(latest.read_text())
    for file in document["files"]:
        if file["path"] == entry["path"]:
            file.update({**entry, **more})
    latest.write_text(json.dumps(document))


def many_rows(table: Table, count: int, **more: Any) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        described(folder, table, repeated(table, folder, count), **more)

    return attack


def long_texts(folder: Path) -> None:
    described(folder, BUCKET_SEEN, repeated(BUCKET_SEEN, folder, 4 * ROW_GROUP, user="a" * 30_000))


def large_latest(folder: Path) -> None:
    latest = next(folder.rglob("LATEST.json"))
    with latest.open("r+b") as file:
        file.truncate(200_000_000)  # zeros that need no space


def nested_latest(folder: Path) -> None:
    next(folder.rglob("LATEST.json")).write_text("[" * 1_000_000)


def dense_latest(folder: Path) -> None:
    next(folder.rglob("LATEST.json")).write_text("[" + "[]," * 1_300_000 + "1]")


ATTACKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "8 million buckets": (many_rows(BUCKET_SEEN, 8_000_000), "are read"),
    "3 million buckets that are not told": (
        many_rows(BUCKET_SEEN, 3_000_000, rows=5),
        "where 5 are expected",
    ),
    "10.1 million samples of one client": (
        many_rows(USAGE_SAMPLE, 10_100_000),
        "10,000,000 samples",
    ),
    "texts that repeat": (long_texts, "bytes of text"),
    "200 MB of LATEST.json": (large_latest, "more than 4,194,304 bytes"),
    "LATEST.json that is nested": (nested_latest, "not JSON"),
    "LATEST.json of empty lists": (dense_latest, "items"),
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
    assert {USAGE_SAMPLE.name, BUCKET_SEEN.name} <= set(TABLES)


def test_repeated_long_texts_are_refused_also_where_rows_are_filtered(
    reader: Prepared, tmp_path: Path
) -> None:
    published(tmp_path, CLUSTER, {"alice": busy(100)}, end_ms=END_MS, days=1, brokers=("1",))
    entry = repeated(BUCKET_SEEN, tmp_path, ROW_GROUP, user="a" * 30_000)
    run = reader.run(str(tmp_path / entry["path"]))
    assert_bounded(run, words="bytes of text")
