"""kquota usage ingest: imported, refused and reported files, with a project and without one."""

import asyncio
import json
import subprocess
import sys
import threading
from subprocess import PIPE

import pytest

from reconciler.cli import main
from reconciler.codecs.state import state_document
from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.lake import Lake
from reconciler.quota.state import QuotaState
from reconciler.render.json_values import dump
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, USAGE_SAMPLE
from tests.cli import projects
from tests.cli.usage.recorded_project import BEGIN, SERIES, SETTINGS
from tests.evidence.ingest import recorded_use
from tests.fakes.clock import FakeClock
from tests.fakes.prometheus import FakePrometheus, Fault
from tests.servers.processes import HANG_SECONDS

WINDOW = ("--from", "2023-11-14T00:00:00Z", "--to", "2023-11-15T06:00:00Z")


class Served:
    """A fake Prometheus in a thread, because the command runs its own event loop."""

    def __init__(self, faults=()):
        self.server = FakePrometheus()
        recorded_use.put(self.server, SERIES)
        self.server.faults = list(faults)

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.__aenter__(), self._loop).result(HANG_SECONDS)
        return self.server

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.server.__aexit__(), self._loop).result(HANG_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_SECONDS)
        self._loop.close()


def ingest(kquota, *arguments, lake="lake"):
    return kquota("usage", "ingest", "--lake", lake, *arguments)


def test_a_file_is_imported_into_the_lake_and_reported(kquota, project, export):
    done = ingest(kquota, "--file", export, "--format", "json")
    document = json.loads(done.out)
    assert done.code == 0, done.err
    (cluster,) = document["clusters"]
    assert (document["kind"], document["format"]) == ("kquota-ingest", 1)
    assert (cluster["cluster"], cluster["clusterId"], cluster["newPoints"]) == (
        "orders",
        "id-o",
        480,
    )
    assert [(day["day"], day["samples"], day["assembled"]) for day in cluster["days"]] == [
        ("2023-11-14", 80, True),
        ("2023-11-15", 80, True),
    ]
    assert cluster["days"][0]["coveragePpm"] == {
        "1": 20 * 30_000 * 1_000_000 // 86_400_000,
        "2": 20 * 30_000 * 1_000_000 // 86_400_000,
    }
    assert cluster["days"][0]["counts"] == {"quota_unknown": 80}


def test_the_output_counts_imported_refused_and_covered_data(kquota, project, folder):
    strange = recorded_use.recorded(BEGIN, 40, cluster="unknown")
    path = folder / "a.om"
    path.write_text(recorded_use.openmetrics([*SERIES, *strange]))
    done = ingest(kquota, "--file", path)
    assert done.code == 0, done.err
    assert "cluster orders (id-o)" in done.out
    assert "480 new points" in done.out
    assert "other_cluster: series that match no cluster's telemetry.matchers" in done.out
    assert "2023-11-14 80 samples, assembled; covered: broker 1 0.7 %, broker 2 0.7 %" in done.out


WITHOUT_RULES = {
    recorded_use.RATE: "kafka_server_Produce_byte_rate",
    recorded_use.DELAY: "kafka_server_Produce_throttle_time",
    recorded_use.IDENTITY: "kafka_server_app_info_StartTimeMs",
}
"""The names of the JMX agent without rules."""


def without_rules(folder, write=str):
    """An export of the JMX agent without rules; `write` changes names."""
    series = [
        (
            write(WITHOUT_RULES.get(name, name)),
            {label: value for label, value in labels.items() if label != "resource"},
            points,
        )
        for name, labels, points in SERIES
    ]
    path = folder / "agent.om"
    path.write_text(recorded_use.openmetrics(series))
    return path


def test_a_run_in_which_nothing_is_usable_is_an_error_each_time(kquota, project, folder):
    lost = without_rules(folder, lambda name: name.replace("app_info_StartTimeMs", "started"))
    for _ in range(2):
        done = ingest(kquota, "--file", lost)
        assert done.code == 1
        assert "nothing that was read can be used" in done.err
        assert "whose broker nothing identifies" in done.err


def test_without_a_file_prometheus_is_queried(kquota, project):
    with Served() as server:
        done = ingest(kquota, "--prometheus", server.url, *WINDOW)
    assert done.code == 0, done.err
    assert "queried 2023-11-14T00:00:00Z to 2023-11-15T06:00:00Z" in done.out
    assert "480 new points" in done.out


def test_an_unreachable_prometheus_is_reported_as_an_error(kquota, project):
    refused = [Fault(status=400, text='{"status":"error","error":"no such thing"}')] * 5
    with Served(refused) as server:
        done = ingest(kquota, "--prometheus", server.url, *WINDOW)
    assert done.code == 1
    assert "orders: " in done.err
    assert "no such thing" in done.err


def test_an_empty_window_is_reported(kquota, project):
    with Served() as server:
        done = ingest(
            kquota, "--prometheus", server.url, "--from", "2020-01-01", "--to", "2020-01-02"
        )
    assert done.code == 0
    assert "the window is empty" in done.out


def test_a_snapshot_without_a_time_is_refused_before_anything_is_read(kquota, project, export):
    look = project / "look.json"
    look.write_text(dump(state_document(QuotaState(), cluster_id="id-o", taken_at="")))
    done = ingest(kquota, "--snapshot", look, "--file", export)
    assert done.code == 1
    assert "--taken-at" in done.err
    assert "480" not in done.out


@pytest.mark.parametrize("server", [("--prometheus", "http://unused"), ("--http-config", "c.yml")])
def test_a_server_beside_files_is_refused_because_only_files_would_be_read(
    kquota, project, folder, export, server
):
    _ = (folder / "c.yml").write_text("{}")
    done = ingest(kquota, "--file", export, *server)
    assert (done.code, done.out) == (1, "")
    assert "--file excludes --prometheus and --http-config" in done.err


def test_a_rebuild_without_a_source_is_refused(kquota, project, export):
    ingest(kquota, "--file", export)
    done = ingest(kquota, "--rebuild")
    assert done.code == 1
    assert "pass files (--file) or a Prometheus" in done.err


def test_without_a_project_every_setting_comes_from_options(kquota, folder, export):
    done = ingest(
        kquota,
        "--cluster-id",
        "id-o",
        "--step",
        "30s",
        "--matchers",
        'cluster="orders"',
        "--file",
        export,
        "--broker-id",
        "regex:instance:.*-([0-9]+):7071",
    )
    assert done.code == 0, done.err
    assert "cluster id-o" in done.out
    assert "app_info_unused" in done.out
    assert "2023-11-15 80 samples" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cluster-id", "x", "--file", "export.om"), "scrapeStep"),
        (("--cluster-id", "x", "--step", "30s", "--file", "export.om", "--previews"), "evidence"),
        (("--cluster-id", "x", "--step", "30s", "--file", "nowhere.om"), "nowhere.om"),
        (("--cluster-id", "x", "--step", "30s", "--broker-id", "eval:x"), "label:NAME"),
        (("--cluster-id", "x", "--step", "30s"), "telemetry.prometheus"),
        (
            ("--cluster-id", "x", "--step", "30s", "--file", "export.om", "--dialect", "no"),
            "unknown dialect",
        ),
        (("--cluster", "x"), "kquota.yaml"),
    ],
)
def test_contradictory_options_are_an_error_with_the_next_step(
    kquota, folder, export, arguments, words
):
    done = ingest(kquota, *arguments)
    assert done.code == 1
    assert words in done.err


def test_a_truncated_file_is_reported_with_its_place_and_its_days_are_partial(
    kquota, project, export
):
    export.write_text(export.read_text()[:-3000])
    done = ingest(kquota, "--file", export)
    assert done.code == 0, done.err
    assert "1 truncated: " in done.out
    assert "ends in the middle of a line" in done.out
    assert "PARTIAL: the file export.om was not read whole" in done.out


def test_two_concurrent_ingests_keep_the_union(project, folder):
    halves = {"1.om": (0, BEGIN + 700_000), "2.om": (BEGIN + 500_000, 2**60)}
    running = []
    for name, (begin, end) in halves.items():
        (folder / name).write_text(
            recorded_use.openmetrics(recorded_use.between(SERIES, begin, end))
        )
        words = ["usage", "ingest", "--lake", "lake", "--file", name, "--format", "json"]
        command = [sys.executable, "-m", "reconciler", *words]
        running.append(subprocess.Popen(command, cwd=folder, stdout=PIPE, stderr=PIPE, text=True))
    for process in running:
        _, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, err
    (folder / "all.om").write_text(recorded_use.openmetrics(SERIES))
    lakes = {
        name: Lake(table_store.opened(name, create=True), clock=FakeClock())
        for name in ("lake", "alone")
    }
    assert main.main(["usage", "ingest", "--lake", "alone", "--file", "all.om"]) == 0
    for table in (USAGE_SAMPLE, TARGET_UP, BROKER_SAMPLE):
        together, alone = (lake.read(lake.days(table), table=table) for lake in lakes.values())
        assert together.equals(alone)


@pytest.mark.parametrize("more", [(), ("--previews",), ("--rebuild",)])
def test_all_clusters_without_any_telemetry_is_an_error(kquota, folder, more):
    projects.project(folder, "h:1", more="  expectedClusterId: s\n", name="silent")
    done = ingest(kquota, "--all", *more)
    assert done.code == 1
    assert "no cluster of the project has telemetry" in done.err


def test_a_file_that_cannot_be_read_is_reported_once_and_marked_in_evidence(
    kquota, project, export
):
    (project / "b.om").write_bytes(b"\xff\n")
    done = ingest(kquota, "--file", export, "--file", "b.om", "--previews", "--format", "json")
    assert done.code == 1
    document = json.loads(done.out)
    assert "b.om" in document["failures"][0]
    assert document["clusters"][0]["failures"] == []
    assert done.err.count("b.om") == 1
    copied = Lake(table_store.opened(str(project / "evidence")), clock=FakeClock())
    for day in copied.days(USAGE_SAMPLE):
        assert day.partial == ("the file b.om was not read whole",)


def test_with_all_clusters_those_without_telemetry_are_skipped_and_named(kquota, folder, export):
    orders = projects.CLUSTER.format(name="orders", bootstrap="h:1") + SETTINGS
    silent = projects.CLUSTER.format(name="silent", bootstrap="h:2") + "  expectedClusterId: s\n"
    (folder / "kquota.yaml").write_text(f"{projects.PROJECT}---\n{orders}---\n{silent}")
    done = ingest(kquota, "--all", "--file", export)
    assert done.code == 0, done.err
    assert "silent has no telemetry in the project" in done.err
    assert "480 new points" in done.out
