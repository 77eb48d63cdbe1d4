"""Tables from which every engine takes its schema."""

import pytest

from reconciler.usage.tables import (
    TABLES,
    Table,
)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_every_key_consists_of_columns_that_are_never_null(table: Table) -> None:
    never_null = {column.name for column in table.columns if not column.null}
    assert set(table.key) <= never_null
    assert len(set(table.names)) == len(table.names)
