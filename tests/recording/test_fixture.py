"""The recorder's values: reproducible schedules, limits that can be met, files that read back equal."""

import pytest

from reconciler.codecs.state import read_state
from tests.recording import broker_run, fixture, shapes
from tests.recording.broker_run import Phase, Record, Recorded
from tests.recording.runs import RUNS, Run
from tests.servers import exporter


@pytest.mark.parametrize("number", [1, 4, 7])
def test_the_fixture_contains_the_schedules_of_its_seeds(number):
    run, fixture_run = RUNS[number - 1], fixture.read(number)
    for group, case in zip(run.groups, fixture_run.cases, strict=True):
        due = sorted(at for schedule in run.schedules(group) for at in schedule.due_ms)
        for half, (begin, _) in (
            (case.free, fixture_run.free),
            (case.limited, fixture_run.limited),
        ):
            assert sorted(record.due_ms - begin for record in half) == due
        assert case.limit == run.limit(group)


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_the_limit_is_chosen_so_that_everything_is_sent_in_time_and_some_records_wait(shape):
    streams = shapes.schedule(shape, 5, mean=80_000, record=4_096, connections=2, seconds=60)
    limit = shapes.fitting(streams, target_delay=20.0, latest=100.0)
    end, worst = shapes.drains(streams, limit)
    assert end <= 100
    assert 5 < worst <= 20
    assert shapes.drains(streams, limit * 9 // 10)[1] > worst


def test_a_run_is_written_under_pseudonyms_and_read_back(tmp_path):
    run = Run(number=9, version="4.4.0", level="pair", groups=RUNS[3].groups[:2], seconds=10)
    limits = {group.name: 1_000 for group in run.groups}
    records = tuple(
        Record(
            group=group.name,
            due_ms=1_000 + at,
            sent_ms=1_001 + at,
            done_ms=None if at == 7 else 1_005 + at,
            size=10,
        )
        for group in run.groups
        for at in (7, 0, 3)
    )
    labels = {
        "__name__": "up",
        "user": "team-1",
        "client_id": "team-1-app",
        "instance": "127.0.0.1:1",
    }
    wide = broker_run.telemetry_limits("pair")
    recorded = Recorded(
        run=run,
        cluster_id="c" * 22,
        limits=limits,
        before=wide,
        after=(*wide, *broker_run.limits_of("pair", run.groups, limits)),
        free=Phase(from_ms=1_000, to_ms=2_000, records=records),
        limited=Phase(from_ms=1_000, to_ms=2_000, records=records),
        matrix={"data": {"result": [{"metric": labels, "values": [[1, "0"]]}]}},
        load=(0.5, 1.5, 1.0),
    )
    paths = fixture.write(recorded, b"key", tmp_path)
    first = {path: path.read_bytes() for path in paths}
    assert {path: path.read_bytes() for path in fixture.write(recorded, b"key", tmp_path)} == first
    assert not any(b"team-" in content for content in first.values())
    fixture_run = fixture.read(9, tmp_path)
    assert fixture_run.load == (1.0, 1.5)
    assert [(record.due_ms, record.took_ms) for record in fixture_run.cases[1].free] == [
        (1_000, 5),
        (1_003, 5),
        (1_007, 993),
    ]
    (series,) = fixture_run.matrix["data"]["result"]
    assert (series["metric"]["user"], series["metric"]["instance"]) == (
        fixture_run.cases[0].user,
        "broker-1:7071",
    )
    _, read_time, state = read_state(
        (tmp_path / "run-9.limited.quotas.json").read_text(), location="x"
    )
    assert read_time
    assert {who[0] for who in state.limits} == {None, *(case.user for case in fixture_run.cases)}


def test_each_name_has_one_pseudonym_and_an_empty_name_has_none():
    rename = fixture.pseudonyms(b"one key")
    assert rename("team-1") == rename("team-1") != rename("team-2")
    assert rename("team-1") != fixture.pseudonyms(b"another")("team-1")
    assert rename("") == ""


def test_the_scrape_job_of_a_recording_is_the_documented_one_except_for_target_and_interval():
    (job,) = broker_run.scrape_configuration(7071, 5)["scrape_configs"]
    assert job["scrape_interval"] == "5s"
    assert job["metric_relabel_configs"]
    assert job["static_configs"][0]["targets"] == ["127.0.0.1:7071"]


def test_labels_of_the_text_format_are_parsed_as_by_prometheus():
    text = '# HELP a b\na{x="q\\"\\\\\\n,}",y="1"} NaN\nb 2.0\n'
    samples = exporter.parsed(text)
    assert samples["b", frozenset()] == 2.0
    assert {("x", 'q"\\\n,}'), ("y", "1")} in [set(labels) for _, labels in samples]
