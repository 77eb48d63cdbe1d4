"""kquota usage ingest on a lake with damaged or expired files: messages, and the next run."""

from pathlib import Path

import pytest

from reconciler.codecs.state import state_document
from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from reconciler.usage.tables import QUOTA_ENTRY, USAGE_SAMPLE
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


def test_sums_of_days_that_a_run_does_not_read_are_made_from_their_samples(ingest, export, project):
    ingest("--file", export)
    paths = sorted(Path("lake", "usage_5m").rglob("part.parquet"))
    for path in paths:
        path.unlink()
    assert ingest("--file", part_of(project, 1_700_006_400_000, 2**60)).code == 0
    assert (len(paths), [path.exists() for path in paths]) == (2, [True, True])


def test_snapshots_before_the_first_day_are_not_required(ingest, export, project):
    """A day of quota snapshots that is no longer needed may be damaged."""
    state = QuotaState(limits={entity(user="u0"): limits_of({Key.PRODUCER_BYTE_RATE: 1e6})})
    for number in (1, 2):
        look = project / f"look{number}.json"
        text = f"2023-11-0{number}T00:00:00Z"
        look.write_text(dump(state_document(state, cluster_id="id-o", taken_at=text)))
        assert ingest("--snapshot", look, "--file", export).code == 0
    (project / "lake" / lake().units(QUOTA_ENTRY)[0].path).write_bytes(b"")
    assert ingest("--file", export).code == 0


def test_a_damaged_copy_for_previews_is_replaced_by_the_next_run(ingest, export, project):
    ingest("--file", export, "--previews")
    paths = [*project.glob("evidence/*/cluster_id=id-o/day=2023-11-15/part.parquet")]
    assert paths
    before = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.write_bytes(b"?" * 300)
    assert ingest("--file", export, "--previews").code == 0
    assert {path: path.read_bytes() for path in paths} == before


def test_reading_a_part_of_a_day_loses_no_samples(ingest, export, project):
    ingest("--file", export)
    before = samples()
    done = ingest("--file", part_of(project, BEGIN, BEGIN + 700_000))
    assert done.code == 0, done.err
    assert done.out.count("unchanged") == 2
    assert samples() == before
