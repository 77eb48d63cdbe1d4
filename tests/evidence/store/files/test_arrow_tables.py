import pyarrow as pa
import pytest

from reconciler.errors import LakeDamaged
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.tables import TABLES, TARGET_UP, USAGE_SAMPLE, Column, ColumnKind, Table
from tests.evidence.store import rows

GROWN = Table(
    name=TARGET_UP.name,
    columns=(*TARGET_UP.columns, Column(name="since", kind=ColumnKind.LONG, null=True)),
    key=TARGET_UP.key,
)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_table_has_a_schema_with_exact_nullability(table: Table) -> None:
    schema = arrow_tables.schema(table)
    assert schema.names == list(table.names)
    assert [column.nullable for column in schema] == [column.null for column in table.columns]
    assert arrow_tables.conformed(table, schema.empty_table()).schema.equals(schema)


def test_a_nullable_column_of_a_later_version_is_null_if_it_is_missing() -> None:
    table = arrow_tables.conformed(GROWN, rows.up())
    assert table.column("since").to_pylist() == [None] * 3
    assert table.schema.equals(arrow_tables.schema(GROWN))


def test_other_string_types_and_other_column_orders_are_accepted() -> None:
    plain = rows.up()
    spelled = pa.table(
        {
            "up": plain.column("up"),
            "day": plain.column("day"),
            "ts_ms": plain.column("ts_ms"),
            "dt_ms": plain.column("dt_ms"),
            "broker_id": plain.column("broker_id").cast(pa.large_string()).dictionary_encode(),
            "cluster_id": plain.column("cluster_id").cast(pa.string_view()),
        }
    )
    assert arrow_tables.conformed(TARGET_UP, spelled).equals(plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns(["up"]), "the column 'up' of target_up is missing"),
        (lambda t: t.append_column("x", t["up"]), "target_up has no column 'x'"),
        (lambda t: t.append_column("up", t["up"]), "duplicate column 'up' of target_up"),
        (
            lambda t: t.set_column(3, "dt_ms", t["ts_ms"]),
            "'dt_ms' of target_up is int64, not int32",
        ),
        (lambda t: t.set_column(0, "cluster_id", t["ts_ms"]), "is int64, not string"),
        (
            lambda t: t.set_column(1, "broker_id", pa.array(["1", None, None])),
            "2 of 3 values in the column 'broker_id' are null",
        ),
        (
            lambda t: t.set_column(
                1, "broker_id", pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["1", None]))
            ),
            "1 of 3 values in the column 'broker_id' are null",
        ),
    ],
)
def test_a_mismatched_column_is_refused_with_file_and_column(change, message: str) -> None:
    with pytest.raises(LakeDamaged) as caught:
        arrow_tables.conformed(TARGET_UP, change(rows.up()), "some/file.parquet")
    assert str(caught.value).startswith("some/file.parquet: ")
    assert message in str(caught.value)


def test_the_elements_of_lists_of_texts_are_unchanged() -> None:
    table = Table(name="x", columns=(Column(name="rules", kind=ColumnKind.TEXTS),), key=("rules",))
    conformed_table = arrow_tables.conformed(table, pa.table({"rules": pa.array([["a", "b"], []])}))
    assert conformed_table.column("rules").to_pylist() == [["a", "b"], []]
    assert not conformed_table.schema.field("rules").type.value_field.nullable


def test_nullable_columns_of_a_sample_may_be_null() -> None:
    assert arrow_tables.conformed(USAGE_SAMPLE, rows.usage()).column("throttle_ms").null_count == 3


def test_a_reader_has_a_copy_of_the_bytes_in_arrow_memory() -> None:
    content = bytes(range(256)) * 4
    before = pa.total_allocated_bytes()
    reader = arrow_tables.open_content(content)
    assert pa.total_allocated_bytes() - before >= len(content)
    assert reader.read() == content
    assert arrow_tables.open_content(b"").read() == b""
