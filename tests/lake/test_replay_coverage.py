"""Windows of the lake for the core: what they are worth."""

import datetime as dt
from types import SimpleNamespace

import pyarrow as pa
import pytest

from reconciler.lake import arrow, replay
from reconciler.lake.lake import Lake
from reconciler.lake.manifest import Unit
from reconciler.lake.store import opened
from reconciler.usage.tables import TARGET_UP
from tests.fakes.clock import FakeClock

DAY = dt.date(2026, 11, 1)
BEGIN = 1_793_491_200_000


@pytest.mark.parametrize(("answers", "ppm"), [((True, True), 500_000), ((True, False), 0)])
def test_a_broker_that_never_answered_leaves_nothing_covered(answers, ppm) -> None:
    lake = Lake(opened("memory://"), clock=FakeClock())
    rows = [
        {"cluster_id": "c", "broker_id": str(broker), "ts_ms": BEGIN + at, "dt_ms": 10, "up": up, "day": DAY}
        for broker, up in enumerate(answers)
        for at in (10, 20, 30, 40, 50)
    ]  # fmt: skip
    unit = Unit(table=TARGET_UP, cluster_id="c", day=DAY)
    lake.commit(unit, pa.Table.from_pylist(rows, schema=arrow.schema(TARGET_UP)), None)
    window = SimpleNamespace(cluster_id="c", from_ms=BEGIN, to_ms=BEGIN + 100)
    assert replay.coverage_ppm(lake, window) == ppm
