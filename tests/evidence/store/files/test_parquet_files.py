import contextlib
import random
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from reconciler.errors import LakeDamaged
from reconciler.evidence.store.files import arrow_tables, parquet_files, table_store
from reconciler.evidence.store.files.parquet_files import TableFile
from reconciler.evidence.store.stored_days import SERIES
from reconciler.usage.tables import QUOTA_ENTRY, TARGET_UP, USAGE_SAMPLE, ColumnKind, Table
from tests.evidence.store import rows
from tests.evidence.store.stores import PassingStore

NAMES = st.text(st.characters(codec="utf-8"), max_size=6)


def of(content: bytes, table: Table = USAGE_SAMPLE) -> TableFile:
    store = PassingStore()
    store.put("x", content, after=None)
    file = TableFile(store, "x", table)
    file.store = store  # the folder lives as long as the file
    return file


@given(st.lists(NAMES, min_size=1, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_the_same_rows_in_any_order_give_the_same_bytes_sorted_by_the_key(
    users: list[str], chance: random.Random
) -> None:
    table = rows.usage(users=users, brokers=("1", "10", "2"))
    order = list(range(table.num_rows))
    chance.shuffle(order)
    content = parquet_files.write_parquet(USAGE_SAMPLE, table, {})
    assert parquet_files.write_parquet(USAGE_SAMPLE, table.take(order), {}) == content
    sorted_rows = of(content).read(USAGE_SAMPLE.names).to_pylist()
    keys = [tuple(row[name] for name in USAGE_SAMPLE.key) for row in sorted_rows]
    # Arrow compares texts by their bytes; so do Spark and Parquet's statistics.
    assert keys == sorted(
        keys,
        key=lambda key: [str(value).encode() if isinstance(value, str) else value for value in key],
    )
    assert len(sorted_rows) == table.num_rows


def test_rows_with_equal_keys_are_ordered_by_the_other_columns() -> None:
    table = rows.usage(rates=(5, 6, 7))
    equal = table.set_column(7, "ts_ms", pa.array([1, 1, 1]))
    assert parquet_files.write_parquet(USAGE_SAMPLE, equal, {}) == parquet_files.write_parquet(
        USAGE_SAMPLE, equal.take([2, 0, 1]), {}
    )


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
    entries = quota_entries(float("nan"), float("inf"), -0.0)
    content = parquet_files.write_parquet(QUOTA_ENTRY, entries, {})
    values = of(content, QUOTA_ENTRY).read(["value"])["value"].to_pylist()
    assert [repr(value) for value in values] == ["nan", "inf", "-0.0"]


def test_a_file_has_compressed_row_groups_with_statistics_and_its_sort_order() -> None:
    many = rows.usage(users=[f"u{n}" for n in range(700)], rates=range(100))
    content = parquet_files.write_parquet(USAGE_SAMPLE, many, {"kquota": "{}"})
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
    assert file.schema_arrow.equals(arrow_tables.schema(USAGE_SAMPLE))
    assert of(content).texts["kquota"] == "{}"


def key(user: str) -> tuple[str, ...]:
    return ("produce", "user", user, "", "", "1")


def test_row_groups_that_cannot_contain_a_series_are_passed_over() -> None:
    many = rows.usage(users=[f"u{n:03d}" for n in range(700)], rates=range(100))
    file = of(parquet_files.write_parquet(USAGE_SAMPLE, many, {}))
    assert file.groups(SERIES, [key("u699")]) == [1]
    assert file.groups(SERIES, [key("u001")]) == [0]
    assert file.groups(SERIES, [key("u001"), key("u699")]) == [0, 1]
    assert file.groups(SERIES, [key("a"), key("z")]) == []
    assert file.groups(SERIES, [key(f"u{n:04d}") for n in range(7_000)]) == [0, 1]
    long_names = rows.usage(users=["a" * 9_000, "b" * 9_000])
    unknown = of(parquet_files.write_parquet(USAGE_SAMPLE, long_names, {}))
    assert unknown.groups(SERIES, [key("b" * 9_000)]) == [0]


@pytest.mark.parametrize("cut", [0, 3, 100, -1, -200])
def test_a_truncated_file_is_named_with_the_next_step(cut: int) -> None:
    content = parquet_files.write_parquet(USAGE_SAMPLE, rows.usage(), {})[:cut]
    with pytest.raises(LakeDamaged, match="/x: is not a complete Parquet file") as caught:
        of(content)
    assert caught.value.hint.startswith("remove the file")


def test_damaged_pages_are_an_error_when_they_are_read() -> None:
    many = rows.usage(users=[f"u{n:03d}" for n in range(700)], rates=range(100))
    content = bytearray(parquet_files.write_parquet(USAGE_SAMPLE, many, {}))
    group = pq.read_metadata(pa.BufferReader(bytes(content))).row_group(0)
    begin = group.column(0).dictionary_page_offset
    end = group.column(group.num_columns - 1).data_page_offset
    content[begin:end] = b"\xff" * (end - begin)
    file = of(bytes(content))
    last = [("produce", "user", "u699")]
    names = ["quota_type", "group_kind", "user"]
    assert file.map_groups(["user"], len, names, last) == [4_464]
    with pytest.raises(LakeDamaged, match="is not a complete Parquet file"):
        file.read(["user"])


@given(st.integers(0), st.integers(0, 7))
def test_a_flipped_bit_in_a_page_never_changes_a_number(place: int, bit: int) -> None:
    content = parquet_files.write_parquet(USAGE_SAMPLE, rows.usage(rates=range(200)), {})
    numbers = ["ts_ms", "dt_ms", "rate_units", "throttle_ms"]
    group, first = pq.read_metadata(pa.BufferReader(content)).row_group(0), 7
    pages = [group.column(first + at) for at in range(len(numbers))]
    assert [page.path_in_schema for page in pages] == numbers
    begin = pages[0].data_page_offset
    end = pages[-1].data_page_offset + pages[-1].total_compressed_size
    damaged = bytearray(content)
    damaged[begin + place % (end - begin)] ^= 1 << bit
    with contextlib.suppress(LakeDamaged):
        assert of(bytes(damaged)).read(numbers).equals(of(content).read(numbers))


def test_row_groups_that_are_larger_than_kquota_writes_them_are_refused(tmp_path: Path) -> None:
    many = pa.concat_tables([rows.usage(rates=range(1_000))] * 140)
    pq.write_table(many, tmp_path / "x", row_group_size=140_000)
    with pytest.raises(LakeDamaged, match="has row groups of more than 131,072 rows"):
        TableFile(table_store.opened(str(tmp_path)), "x", USAGE_SAMPLE)


def test_a_column_that_was_added_later_is_missing_in_an_older_file() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(quota_entries(1.0).drop_columns(["quota_units"]), sink)
    old = of(bytes(sink.getvalue()), QUOTA_ENTRY).read(QUOTA_ENTRY.names)
    typed = arrow_tables.typed(QUOTA_ENTRY, old, ["quota_units"], "x")
    assert typed["quota_units"].to_pylist() == [None]


def test_a_file_has_the_table_that_it_is_read_as() -> None:
    content = parquet_files.write_parquet(TARGET_UP, rows.up(), {})
    with pytest.raises(LakeDamaged, match="has other columns than usage_sample"):
        of(content)
