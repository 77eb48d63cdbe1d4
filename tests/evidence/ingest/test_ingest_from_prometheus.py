"""From a real Prometheus with blocks of promtool by command line to rows of the lake and published evidence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.codecs.state import state_document
from reconciler.evidence.store import published_evidence
from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import bucket_of
from tests.cli import projects
from tests.evidence.ingest import recorded_use
from tests.evidence.ingest.test_with_prometheus import Stored
from tests.fakes.clock import FakeClock
from tests.servers import prometheus
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

MIDNIGHT = 1_700_006_400_000
BEGIN = MIDNIGHT - 2 * 3_600_000
COUNT = 4 * 120
LIMITS = QuotaState(limits={entity(user="u0"): limits_of({Key.PRODUCER_BYTE_RATE: 1e6})})
SETTINGS = """\
  expectedClusterId: id-o
  telemetry:
    prometheus: {url}
    matchers: cluster="orders"
    scrapeStep: 30s
    evidenceUri: evidence
"""


def with_a_gap(series: recorded_use.Recorded) -> recorded_use.Recorded:
    """Broker 2 is unreachable for ten minutes; one user of broker 1 is idle in the last hour."""
    series_with_gap = []
    for name, labels, points in series:
        points_with_gap = points
        if labels["instance"] == "orders-2:7071":
            down = range(MIDNIGHT, MIDNIGHT + 600_000)
            if name == "up":
                points_with_gap = [(at, "0" if at in down else value) for at, value in points]
            else:
                points_with_gap = [point for point in points if point[0] not in down]
        elif labels.get("user") == "u1":
            points_with_gap = [point for point in points if point[0] < MIDNIGHT + 3_600_000]
        series_with_gap.append((name, labels, points_with_gap))
    return series_with_gap


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ingest-tsdb")
    source = folder / "recorded.txt"
    series = with_a_gap(recorded_use.recorded(BEGIN, COUNT))
    series += recorded_use.recorded(BEGIN, 10, cluster="payments")
    source.write_text(recorded_use.openmetrics(series), encoding="utf-8")
    prometheus.promtool(
        "tsdb", "create-blocks-from", "openmetrics", str(source), str(folder / "data")
    )
    return folder


def kquota(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reconciler", "usage", "ingest", "--lake", "lake", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


def test_recordings_of_prometheus_become_samples_and_evidence(blocks: Path, tmp_path: Path) -> None:
    with Stored(blocks / "data") as server:
        projects.project(tmp_path, "h:9092", more=SETTINGS.format(url=server.url), name="orders")
        window = ("--from", "2023-11-14T20:00:00Z", "--to")
        first = kquota(tmp_path, *window, "2023-11-15T01:00:00Z", "--format", "json")
        assert first.returncode == 0, first.stderr
        # The second run starts by default with the day in which the first one ended, minus three hours.
        look = tmp_path / "look.json"
        look.write_text(
            dump(state_document(LIMITS, cluster_id="id-o", taken_at="2023-11-14T12:00:00Z"))
        )
        second = kquota(
            tmp_path,
            "--to",
            "2023-11-15T03:00:00Z",
            "--snapshot",
            str(look),
            "--previews",
            "--format",
            "json",
        )
        assert second.returncode == 0, second.stderr
    (cluster,) = json.loads(second.stdout)["clusters"]
    assert cluster["from"] == "2023-11-14T00:00:00Z"
    assert [day["assembled"] for day in cluster["days"]] == [True, True]
    lake = Lake(table_store.opened(str(tmp_path / "lake")), clock=FakeClock())
    rows = lake.read(lake.days(USAGE_SAMPLE), table=USAGE_SAMPLE).to_pylist()
    assert {row["cluster_id"] for row in rows} == {"id-o"}
    assert {row["censored"] for row in rows} == {"no"}
    own = [row for row in rows if row["broker_id"] == "1" and row["user"] == "u0"]
    assert [row["rate_units"] for row in own] == [1000 + number for number in range(COUNT)]
    assert {row["dt_ms"] for row in own} == {30_000}
    silent = [row for row in rows if row["broker_id"] == "1" and row["user"] == "u1"]
    assert [row["rate_units"] for row in silent][-120:] == [0] * 120
    assert len(silent) == COUNT
    second_broker = [row for row in rows if row["broker_id"] == "2" and row["user"] == "u0"]
    assert len(second_broker) == COUNT - 20
    assert sum(row["dt_ms"] for row in second_broker) == (COUNT - 20) * 30_000
    up = lake.read(lake.days(TARGET_UP), table=TARGET_UP).to_pylist()
    assert sum(not row["up"] for row in up) == 20
    to_ms = BEGIN + 2 * 137 + (COUNT - 1) * 30_000 + 1
    published = published_evidence.opened(
        table_store.opened(str(tmp_path / "evidence")),
        "id-o",
        now_ms=10**13,
        max_age_ms=10**13,
    )
    assert published.note.stale == ""
    assert published.note.to_ms == to_ms
    assert published.state == LIMITS
    bucket = bucket_of("u0")
    assert published.buckets_by_broker(QuotaType.PRODUCE) == {
        "1": {bucket, bucket_of("u1")},
        "2": {bucket, bucket_of("u1")},
    }
    series = published.series(QuotaType.PRODUCE, [bucket])[bucket]
    assert series["1"].rate_units.tolist() == [1000 + number for number in range(COUNT)]


def test_a_cluster_that_prometheus_does_not_know_is_an_empty_window(
    blocks: Path, tmp_path: Path
) -> None:
    with Stored(blocks / "data") as server:
        text = SETTINGS.format(url=server.url).replace('"orders"', '"nobody"')
        projects.project(tmp_path, "h:9092", more=text, name="orders")
        done = kquota(tmp_path, "--from", "2023-11-14", "--to", "2023-11-16")
    assert done.returncode == 0, done.stderr
    assert "the window is empty" in done.stdout
