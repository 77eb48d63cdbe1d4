"""kquota spark ingest on a lake whose files are damaged or expired: what it says, and how it goes on."""

import json

import pytest

from reconciler.codecs.state import state_document
from reconciler.evidence.store.files import object_store
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from reconciler.usage.tables import POINT, QUOTA_ENTRY, SNAPSHOT, USAGE_SAMPLE
from tests.cli import recorded_project
from tests.cli.recorded_project import BEGIN, SERIES
from tests.evidence.ingest import recorded_use
from tests.fakes.clock import FakeClock

FROM = ("--from", "2023-11-14", "--to", "2023-11-16")
DAYS = ("2023-11-14", "2023-11-15")


@pytest.fixture
def project(folder):
    return recorded_project.made(folder)


@pytest.fixture
def export(folder):
    return recorded_project.exported(folder)


@pytest.fixture
def ingest(kquota, project):
    return lambda *arguments: kquota("spark", "ingest", "--lake", "lake", *arguments)


def lake():
    return Lake(object_store.opened("lake"), clock=FakeClock())


def spoil(table):
    """Damages the file of the newest day of a table."""
    where = lake()
    made = where.manifests(table)[-1]
    where.store.put(made.files[0].path, b"?" * made.files[0].size)


def samples():
    return lake().read(lake().manifests(USAGE_SAMPLE), table=USAGE_SAMPLE).to_pylist()


def test_damaged_points_end_a_run_with_the_way_out_and_the_way_out_works(ingest, export):
    assert ingest("--file", export).code == 0
    before = samples()
    spoil(POINT)
    for arguments in (("--file", export), ("--rebuild",)):
        done = ingest(*arguments)
        assert done.code == 1
        assert f"point/id-o/{DAYS[1]}" in done.err
        assert "--from this day" in done.err
    done = ingest("--file", export, *FROM)
    assert done.code == 0, done.err
    assert (
        f"point of id-o on {DAYS[1]} was damaged and begun anew: 0 of 240 rows are left" in done.out
    )
    assert "PARTIAL" not in done.out
    assert samples() == before
    assert ingest("--file", export).code == ingest("--rebuild").code == 0
    assert samples() == before


def test_what_does_not_come_again_is_told_and_costs_no_samples(ingest, export, project):
    ingest("--file", export)
    before = samples()
    spoil(POINT)
    part = project / "part.json"
    part.write_text(recorded_use.answer(recorded_use.between(SERIES, BEGIN, BEGIN + 900_000)))
    done = ingest("--file", part, *FROM)
    assert done.code == 0, done.err
    assert f"{DAYS[1]} 80 samples, as it was" in done.out
    assert "PARTIAL: left as it was: points that it was made from" in done.out
    assert samples() == before
    assert lake().manifests(POINT)[-1].partial == (
        "240 rows were damaged, and not as many came again",
    )
    done = ingest("--rebuild", "--format", "json")
    days = json.loads(done.out)["clusters"][0]["days"]
    assert [(day["assembled"], len(day["partial"])) for day in days] == [(True, 0), (False, 1)]
    assert samples() == before


def test_damaged_days_can_be_given_up_without_any_source(ingest, export):
    ingest("--file", export)
    before = samples()
    spoil(POINT)
    done = ingest("--rebuild", *FROM)
    assert done.code == 0, done.err
    assert "was damaged and begun anew" in done.out
    assert samples() == before


def test_points_outside_of_the_window_are_not_given_up(ingest, export):
    ingest("--file", export)
    spoil(POINT)
    assert ingest("--rebuild", "--from", "2023-11-14", "--to", "2023-11-15").code == 1
    assert [manifest.generation for manifest in lake().manifests(POINT)] == [1, 1]


def test_damaged_looks_can_be_brought_in_again(ingest, export, project):
    state = QuotaState(limits={entity(user="u0"): limits_of({Key.PRODUCER_BYTE_RATE: 1e6})})
    look = project / "look.json"
    text = dump(state_document(state, cluster_id="id-o", taken_at="2023-11-14T00:00:00Z"))
    look.write_text(text)
    ingest("--file", export, "--snapshot", look)
    before = samples()
    for table in (SNAPSHOT, QUOTA_ENTRY):
        spoil(table)
    done = ingest("--file", export, "--snapshot", look)
    assert done.code == 1
    assert "--from this day" in done.err
    done = ingest("--file", export, "--snapshot", look, *FROM)
    assert done.code == 0, done.err
    assert "snapshot of id-o on 2023-11-14 was damaged and begun anew: 0 of 1 rows" in done.out
    assert "1 new look" in done.out
    assert samples() == before


def test_looks_of_before_the_first_points_are_not_asked_for(ingest, export, project):
    """A day of looks that nothing needs any more may be damaged."""
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


def test_damaged_evidence_is_whole_again_after_it_was_published(ingest, export, project):
    ingest("--file", export, "--publish")
    (path,) = [*project.glob("evidence/id-o/bucket_seen/2023-11-15-*")]
    content = path.read_bytes()
    path.write_bytes(b"?" * len(content))
    assert ingest("--file", export, "--publish").code == 0
    assert path.read_bytes() == content


def test_late_points_of_a_day_whose_points_expired_cost_no_samples(ingest, export, project):
    ingest("--file", export)
    before = samples()
    where = lake()
    where.store.delete([path for path, _ in where.store.paths("point")])
    part = project / "part.json"
    part.write_text(recorded_use.answer(recorded_use.between(SERIES, BEGIN, BEGIN + 700_000)))
    done = ingest("--file", part)
    assert done.code == 0, done.err
    assert done.out.count("PARTIAL: left as it was") == 2
    assert samples() == before
