import hashlib
import random

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from reconciler.errors import LakeDamaged, LakeError
from reconciler.evidence.store.files import arrow_tables, parquet_files
from reconciler.usage.tables import QUOTA_ENTRY, TARGET_UP, USAGE_SAMPLE, ColumnKind
from tests.evidence.store import rows

NAMES = st.text(st.characters(codec="utf-8"), max_size=6)


def read(content: bytes, **options: object) -> pa.Table:
    return parquet_files.read(USAGE_SAMPLE, content, path="some/file", **options)


@given(st.lists(NAMES, min_size=1, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_the_same_rows_in_any_order_give_the_same_bytes_sorted_by_the_key(
    users: list[str], chance: random.Random
) -> None:
    table = rows.usage(users=users, brokers=("1", "10", "2"))
    order = list(range(table.num_rows))
    chance.shuffle(order)
    content = parquet_files.write_parquet(USAGE_SAMPLE, table)
    assert parquet_files.write_parquet(USAGE_SAMPLE, table.take(order)) == content
    sorted_rows = read(content).to_pylist()
    keys = [tuple(row[name] for name in USAGE_SAMPLE.key) for row in sorted_rows]
    # Arrow compares texts by their bytes; so do Spark and Parquet's statistics.
    assert keys == sorted(
        keys,
        key=lambda key: [str(value).encode() if isinstance(value, str) else value for value in key],
    )
    assert len(sorted_rows) == table.num_rows


def test_rows_with_equal_keys_are_ordered_by_the_other_columns() -> None:
    table = rows.usage(rates=(5, 6, 7))
    table_of_equal_keys = table.set_column(7, "ts_ms", pa.array([1, 1, 1]))
    assert parquet_files.write_parquet(
        USAGE_SAMPLE, table_of_equal_keys
    ) == parquet_files.write_parquet(USAGE_SAMPLE, table_of_equal_keys.take([2, 0, 1]))


def quota_entries(*values: float) -> pa.Table:
    texts = {column.name: "" for column in QUOTA_ENTRY.columns if column.kind is ColumnKind.TEXT}
    numbers = {"observed_at_ms": 1, "quota_units": 5, "day": rows.day(0)}
    return rows.table_of(
        QUOTA_ENTRY,
        [
            texts | numbers | {"quota_key": f"k{number}", "value": value}
            for number, value in enumerate(values)
        ],
    )


def test_nan_values_are_read_back() -> None:
    content = parquet_files.write_parquet(
        QUOTA_ENTRY, quota_entries(float("nan"), float("inf"), -0.0)
    )
    values = parquet_files.read(QUOTA_ENTRY, content, path="x").column("value").to_pylist()
    assert [repr(value) for value in values] == ["nan", "inf", "-0.0"]


def test_a_file_has_compressed_row_groups_with_statistics_checksums_and_its_sort_order() -> None:
    many = pa.concat_tables([rows.usage(users=[f"u{n}" for n in range(700)], rates=range(100))])
    content = parquet_files.write_parquet(USAGE_SAMPLE, many)
    file = pq.ParquetFile(pa.BufferReader(content))
    assert [file.metadata.row_group(at).num_rows for at in range(2)] == [65_536, 4_464]
    column = file.metadata.row_group(0).column(USAGE_SAMPLE.names.index("user"))
    assert (column.compression, column.has_dictionary_page) == ("ZSTD", True)
    assert column.statistics.min == "u0"
    names = [
        USAGE_SAMPLE.names[sorting_column.column_index]
        for sorting_column in file.metadata.row_group(0).sorting_columns
    ]
    assert tuple(names) == USAGE_SAMPLE.key
    assert file.schema_arrow.equals(arrow_tables.schema(USAGE_SAMPLE), check_metadata=True)


def test_columns_and_rows_are_selected() -> None:
    content = parquet_files.write_parquet(USAGE_SAMPLE, rows.usage(users=("a", "b")))
    where = (pc.field("user") == "b") & (pc.field("rate_units") > 10)
    table = read(content, columns=["rate_units", "user"], row_filter=where)
    assert table.to_pylist() == [{"rate_units": 20, "user": "b"}, {"rate_units": 30, "user": "b"}]
    with pytest.raises(LakeError, match="has no column 'nothing'"):
        read(content, columns=["nothing"])


def test_row_groups_that_cannot_contain_the_rows_are_not_decoded() -> None:
    many = rows.usage(users=[f"u{n:03d}" for n in range(700)], rates=range(100))
    content = bytearray(parquet_files.write_parquet(USAGE_SAMPLE, many))
    group = pq.read_metadata(pa.BufferReader(bytes(content))).row_group(0)
    begin = group.column(0).dictionary_page_offset
    end = group.column(group.num_columns - 1).data_page_offset
    content[begin:end] = b"\xff" * (end - begin)
    table = read(bytes(content), row_filter=pc.field("user") == "u699")
    assert table.num_rows == 100
    with pytest.raises(LakeDamaged, match="is not a complete Parquet file"):
        read(bytes(content))


@pytest.mark.parametrize("cut", [0, 3, 100, -1, -200])
def test_a_truncated_file_is_named_with_the_next_step(cut: int) -> None:
    content = parquet_files.write_parquet(USAGE_SAMPLE, rows.usage())[:cut]
    for act in (lambda: read(content), lambda: parquet_files.count(content, "some/file")):
        with pytest.raises(
            LakeDamaged, match="some/file: is not a complete Parquet file"
        ) as caught:
            act()
        assert caught.value.hint.startswith("remove the folder of this day")


def test_a_flipped_bit_at_any_place_of_the_pages_is_detected() -> None:
    content = parquet_files.write_parquet(TARGET_UP, rows.up(moments=500))
    good = parquet_files.read(TARGET_UP, content, path="x")
    group = pq.read_metadata(pa.BufferReader(content)).row_group(0)
    end = sum(group.column(at).total_compressed_size for at in range(group.num_columns))
    for place in range(10, end, 97):
        flipped = bytearray(content)
        flipped[place] ^= 1
        try:
            table = parquet_files.read(TARGET_UP, bytes(flipped), path="x")
        except LakeDamaged:
            continue
        assert table.equals(good)  # a bit without meaning for readers


def test_size_and_digest_are_compared() -> None:
    content = b"content"
    digest = hashlib.sha256(content).hexdigest()
    parquet_files.check_same(content, size=7, sha256=digest, path="x")
    with pytest.raises(LakeDamaged, match="x: has 7 bytes where 9 were committed"):
        parquet_files.check_same(content, size=9, sha256=digest, path="x")
    with pytest.raises(LakeDamaged, match="x: has other bytes"):
        parquet_files.check_same(b"Content", size=7, sha256=digest, path="x")


def test_a_file_of_the_previous_version_is_read_and_filtered_with_nulls() -> None:
    table = quota_entries(1.0)
    sink = pa.BufferOutputStream()
    pq.write_table(table.drop_columns(["quota_units"]), sink)
    old = bytes(sink.getvalue())
    assert parquet_files.read(QUOTA_ENTRY, old, path="x").column("quota_units").to_pylist() == [
        None
    ]
    where = pc.field("quota_units").is_null()
    assert parquet_files.read(QUOTA_ENTRY, old, path="x", row_filter=where).num_rows == 1


def test_a_null_in_a_required_column_is_detected_on_reading() -> None:
    sink = pa.BufferOutputStream()
    broken = rows.up().set_column(1, "broker_id", pa.array(["1", None, "1"]))
    pq.write_table(broken, sink)
    with pytest.raises(LakeDamaged, match="x: 1 of 3 values in the column 'broker_id' are null"):
        parquet_files.read(TARGET_UP, bytes(sink.getvalue()), path="x")
