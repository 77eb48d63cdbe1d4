"""kquota usage ingest on a lake with damaged or expired files: messages, and the next run."""

from pathlib import Path

import pytest

from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.lake import Lake
from reconciler.usage.tables import USAGE_SAMPLE
from tests.cli.usage.recorded_project import BEGIN, SERIES
from tests.evidence.ingest import recorded_use
from tests.fakes.clock import FakeClock

DAYS = ("2023-11-14", "2023-11-15")


@pytest.fixture
def ingest(kquota, project):
    return lambda *arguments: kquota("usage", "ingest", "--lake", "lake", *arguments)


def lake():
    return Lake(table_store.opened("lake"), clock=FakeClock())


def spoil(table):
    """Damage the file of the newest day of a table; return it."""
    where = lake()
    path = where.units(table)[-1].path
    where.store.put(path, b"?" * 400, after=where.store.version(path))
    return Path("lake", path)


def samples():
    return lake().read(lake().days(USAGE_SAMPLE), table=USAGE_SAMPLE).to_pylist()


def part_of(project, begin, end):
    part = project / "part.om"
    part.write_text(recorded_use.openmetrics(recorded_use.between(SERIES, begin, end)))
    return part


def test_a_damaged_day_ends_the_run_with_the_next_step(ingest, export, project):
    ingest("--file", part_of(project, 0, BEGIN + 900_000))
    path = spoil(USAGE_SAMPLE)
    done = ingest("--file", part_of(project, BEGIN + 700_000, 2**60))
    assert done.code == 1
    assert f"usage_sample/cluster_id=id-o/day={DAYS[1]}/part.parquet" in done.err
    assert "remove the file, then run ingest with --from this day" in done.err
    assert "nothing in the files" not in done.out
    path.unlink()
    done = ingest("--file", export)
    assert done.code == 0, done.err
    assert "PARTIAL" not in done.out
    assert len(samples()) == 160
