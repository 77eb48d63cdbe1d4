"""The coverage of windows of the lake."""

import datetime as dt

import pyarrow as pa
import pytest

from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import Unit, UnitContent
from reconciler.usage.tables import TARGET_UP
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock

DAY = dt.date(2026, 11, 1)
BEGIN = 1_793_491_200_000


@pytest.mark.parametrize(("answers", "ppm"), [((True, True), 500_000), ((True, False), 0)])
def test_with_a_broker_that_never_answered_the_coverage_is_zero(answers, ppm) -> None:
    lake = Lake(PassingStore(), clock=FakeClock())
    rows = [
        {
            "cluster_id": "c",
            "broker_id": str(broker),
            "ts_ms": BEGIN + at,
            "dt_ms": 10,
            "up": up,
            "day": DAY,
        }
        for broker, up in enumerate(answers)
        for at in (10, 20, 30, 40, 50)
    ]
    unit = Unit(table=TARGET_UP, cluster_id="c", day=DAY)
    lake.put(
        unit,
        UnitContent(rows=pa.Table.from_pylist(rows, schema=arrow_tables.schema(TARGET_UP))),
        None,
    )
    assert recorded_window.coverage_ppm(lake, "c", BEGIN, BEGIN + 100) == ppm
