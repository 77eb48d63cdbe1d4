"""Tables from which every engine takes its schema."""

from dataclasses import fields

import pytest

from reconciler.usage.impact.result_rows import ImpactRow, RecommendationRow
from reconciler.usage.reports.usage import CapacityRow, NoisyRow, UsageRow
from reconciler.usage.tables import (
    CAPACITY_ROW,
    IMPACT_ROW,
    NOISY_ROW,
    RECOMMENDATION,
    TABLES,
    USAGE_ROW,
    Table,
)

BUCKET = ("group_kind", "user", "client_id", "ip")


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_key_consists_of_columns_that_are_never_null(table: Table) -> None:
    never_null = {column.name for column in table.columns if not column.null}
    assert set(table.key) <= never_null
    assert len(set(table.names)) == len(table.names)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_table_has_a_cluster_column(table: Table) -> None:
    assert table.names[0] == "cluster_id"


@pytest.mark.parametrize(
    ("table", "row"),
    [
        (IMPACT_ROW, ImpactRow),
        (RECOMMENDATION, RecommendationRow),
        (USAGE_ROW, UsageRow),
        (CAPACITY_ROW, CapacityRow),
        (NOISY_ROW, NoisyRow),
    ],
)
def test_displayed_rows_have_the_columns_of_their_table(table: Table, row: type) -> None:
    names: list[str] = []
    for field in fields(row):
        names += BUCKET if field.name == "bucket" else [field.name]
    assert names == [name for name in table.names if name != "day"]
