"""kquota spark expire on a lake in a folder."""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from reconciler.cli import main
from reconciler.evidence.store.lake import Lake, UnitContent
from reconciler.evidence.store.manifest import Unit
from reconciler.usage.tables import TARGET_UP
from tests.evidence.store import rows

DAY = 86_400


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Days that ended 40, 20 and 2 days ago, written at those times."""
    new_lake = rows.lake_in(tmp_path / "lake")
    now = time.time_ns() // 1_000_000_000
    for ago in (40, 20, 2):
        when = datetime.fromtimestamp(now - ago * DAY, UTC).date()
        unit = Unit(table=TARGET_UP, cluster_id=rows.CLUSTER, day=when)
        content = rows.up().drop_columns(["day"]).append_column("day", pa.array([when] * 3))
        commit = new_lake.commit(unit, UnitContent(rows=content), None)
        for path in (commit.path, commit.files[0].path):
            os.utime(tmp_path / "lake" / path, (now - ago * DAY,) * 2)
    return new_lake


def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str) -> tuple[int, str, str]:
    code = main.main(["spark", "expire", "--lake", str(tmp_path / "lake"), *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.usefixtures("lake")
def test_expired_files_are_removed_and_reported(capsys, tmp_path):
    code, text, _ = run(capsys, tmp_path)
    assert code == 0
    assert text.splitlines()[0].split() == ["TABLE", "DAYS", "GENERATIONS", "FILES", "SIZE"]
    assert text.splitlines()[1].split()[:4] == ["target_up", "1", "0", "1"]
    assert "Removed 1 day of a cluster, 0 superseded generations and 1 file (" in text
    assert run(capsys, tmp_path)[:2] == (0, "No expired data.\n")


def test_a_dry_run_removes_nothing_and_has_json_output(capsys, tmp_path, lake):
    before = lake.store.paths()
    code, output, _ = run(capsys, tmp_path, "--dry-run", "--format", "json")
    document = json.loads(output)
    assert (code, document["kind"], document["dryRun"]) == (0, "kquota-expired", True)
    assert document["tables"][0]["table"] == "target_up"
    assert document["total"]["units"] == document["total"]["files"] == 1
    assert document["total"]["bytes"] > 1000
    assert lake.store.paths() == before
    assert "Would remove 1 day of a cluster" in run(capsys, tmp_path, "--dry-run")[1]


def test_another_retention_can_be_set(capsys, tmp_path, lake):
    _, output, _ = run(capsys, tmp_path, "--keep", "target_up=10", "--keep", "usage_sample=1")
    assert "Removed 2 days of clusters" in output
    assert len(lake.manifests(TARGET_UP)) == 1


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("nothing=3", "there is no table 'nothing'"),
        ("target_up", "give a whole number of days"),
        ("target_up=0", "give a whole number of days"),
        ("target_up=-3", "give a whole number of days"),
    ],
)
@pytest.mark.usefixtures("lake")
def test_an_invalid_retention_is_refused(capsys, tmp_path, typed, message):
    code, _, err = run(capsys, tmp_path, "--keep", typed)
    assert code == 1
    assert message in err


def test_a_missing_lake_is_an_error_with_a_hint(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path)
    assert code == 1
    assert "there is no such folder" in err
    assert "check the address" in err


def test_a_table_that_cannot_be_read_is_reported_and_the_others_expire(capsys, tmp_path, lake):
    broken = lake.store.folder / "quota_entry" / "_units" / rows.CLUSTER / "2025-03-01"
    broken.mkdir(parents=True)
    (broken / "0000000001.json").write_text("{")
    code, output, err = run(capsys, tmp_path, "--keep", "quota_entry=100000")
    assert code == 1
    assert "Removed 1 day of a cluster" in output
    assert "error: quota_entry: " in err
    assert "0000000001.json" in err
    code, output, err = run(capsys, tmp_path, "--keep", "quota_entry=100000", "--format", "json")
    (failure,) = json.loads(output)["failures"]
    assert (code, failure["table"]) == (1, "quota_entry")
    assert "0000000001.json" in failure["error"]
    assert run(capsys, tmp_path, "--keep", "quota_entry=100000")[:2] == (
        1,
        "Nothing was removed.\n",
    )
