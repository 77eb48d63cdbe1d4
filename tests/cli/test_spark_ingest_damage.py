"""kquota spark ingest on a lake with damaged or expired files: messages, and the next run."""

import shutil

import pytest

from reconciler.codecs.state import state_document
from reconciler.evidence.store.files import object_store
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from reconciler.usage.tables import QUOTA_ENTRY, USAGE_SAMPLE
from tests.cli import recorded_project
from tests.cli.recorded_project import BEGIN, SERIES
from tests.evidence.ingest import recorded_use
from tests.fakes.clock import FakeClock

DAYS = ("2023-11-14", "2023-11-15")


@pytest.fixture
def project(folder):
    return recorded_project.project(folder)


@pytest.fixture
def export(folder):
    return recorded_project.exported(folder)


@pytest.fixture
def ingest(kquota, project):
    return lambda *arguments: kquota("spark", "ingest", "--lake", "lake", *arguments)


def lake():
    return Lake(object_store.opened("lake"), clock=FakeClock())


def spoil(table):
    """Damage the file of the newest day of a table."""
    where = lake()
    manifest = where.manifests(table)[-1]
    where.store.put(manifest.files[0].path, b"?" * manifest.files[0].size)


def samples():
    return lake().read(lake().manifests(USAGE_SAMPLE), table=USAGE_SAMPLE).to_pylist()


def part_of(project, begin, end):
    part = project / "part.om"
    part.write_text(recorded_use.openmetrics(recorded_use.between(SERIES, begin, end)))
    return part


def test_damaged_samples_are_repaired_by_reading_their_days_again(ingest, export):
    assert ingest("--file", export).code == 0
    before = samples()
    spoil(USAGE_SAMPLE)
    done = ingest("--file", export, "--rebuild")
    assert done.code == 0, done.err
    assert samples() == before


def test_damaged_samples_that_a_partial_day_would_replace_end_the_run_with_the_next_step(
    ingest, export, project
):
    ingest("--file", part_of(project, 0, BEGIN + 900_000))
    spoil(USAGE_SAMPLE)
    done = ingest("--file", part_of(project, BEGIN + 700_000, 2**60))
    assert done.code == 1
    assert f"usage_sample/id-o/{DAYS[1]}" in done.err
    assert "remove the folder of this day below _units" in done.err
    shutil.rmtree(project / "lake" / "usage_sample" / "_units" / "id-o" / DAYS[1])
    done = ingest("--file", export)
    assert done.code == 0, done.err
    assert "PARTIAL" not in done.out
    assert len(samples()) == 160


def test_snapshots_before_the_first_day_are_not_required(ingest, export, project):
    """A day of quota snapshots that is no longer needed may be damaged."""
    state = QuotaState(limits={entity(user="u0"): limits_of({Key.PRODUCER_BYTE_RATE: 1e6})})
    for number in (1, 2):
        look = project / f"look{number}.json"
        text = f"2023-11-0{number}T00:00:00Z"
        look.write_text(dump(state_document(state, cluster_id="id-o", taken_at=text)))
        assert ingest("--snapshot", look, "--file", export).code == 0
    where = lake()
    first = where.manifests(QUOTA_ENTRY)[0]
    where.store.put(first.files[0].path, b"")
    assert ingest("--file", export).code == 0


def test_damaged_evidence_is_repaired_by_publishing_it_again(ingest, export, project):
    ingest("--file", export, "--publish")
    (path,) = [*project.glob("evidence/id-o/bucket_seen/2023-11-15-*")]
    content = path.read_bytes()
    path.write_bytes(b"?" * len(content))
    done = ingest("--file", export, "--publish")
    assert done.code == 1
    assert "--publish --rebuild" in done.err
    assert ingest("--file", export, "--publish", "--rebuild").code == 0
    assert path.read_bytes() == content


def test_reading_a_part_of_a_day_loses_no_samples(ingest, export, project):
    ingest("--file", export)
    before = samples()
    done = ingest("--file", part_of(project, BEGIN, BEGIN + 700_000))
    assert done.code == 0, done.err
    assert done.out.count("unchanged") == 2
    assert samples() == before
