"""A process that is killed at any step leaves the old or the new state, and the next run continues."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from reconciler.evidence.store import published_evidence, publisher
from reconciler.evidence.store.expiry import expired
from reconciler.evidence.store.lake import UnitContent
from reconciler.usage.samples import DAY_MS, QuotaType, cadence
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from reconciler.usage.tags import bucket_of
from tests.evidence.store import dying, rows

ROOT = Path(__file__).parents[3]
UNIT = rows.unit(USAGE_SAMPLE)


def copies(work: str, folder: Path) -> Iterator[Path]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.evidence.store.dying", work, str(folder)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    count = int(done.stdout)
    assert count > 5
    return (folder / str(number) for number in range(count))


def test_a_killed_commit_leaves_the_old_generation_or_the_new_one(tmp_path: Path) -> None:
    before = rows.lake_in(tmp_path / "before")
    before.commit(UNIT, UnitContent(rows=rows.usage()), None)
    rates_of_copies = []
    for folder in copies("update", tmp_path):
        lake = rows.lake_in(folder)
        rates = lake.read(lake.manifests(USAGE_SAMPLE)).column("rate_units").to_pylist()
        assert rates in ([10, 20, 30], [7, 7])
        rates_of_copies.append(rates)
        now = int(time.time_ns() // 1_000_000) + 2 * DAY_MS
        expired(lake.store, now, {})
        again = lake.update(UNIT, lambda _: UnitContent(rows=rows.usage(rates=(8,))))
        assert lake.read([again]).num_rows == 1
        expired(lake.store, now, {})
        named = {
            file.path for path in lake.store.paths(UNIT.manifests) for file in _files(lake, path)
        }
        assert set(lake.store.paths(UNIT.folder)) == named
        assert not list(folder.rglob("*.new"))
    assert (rates_of_copies[0], rates_of_copies[-1]) == ([10, 20, 30], [7, 7])


def _files(lake, path: str):
    manifest = lake._read(path)
    return manifest.files


def test_a_killed_expiry_never_restores_an_old_state(tmp_path: Path) -> None:
    before = rows.lake_in(tmp_path / "before")
    last_manifest = before.commit(UNIT, UnitContent(rows=rows.usage()), None)
    for rate in (1, 2):
        last_manifest = before.commit(
            UNIT, UnitContent(rows=rows.usage(rates=(rate,))), last_manifest
        )
    manifests = []
    for folder in copies("expire", tmp_path):
        lake = rows.lake_in(folder)
        manifest = lake.manifest(UNIT)
        assert manifest in (last_manifest, None)
        manifests.append(manifest)
        if manifest:
            assert lake.read([manifest]).column("rate_units").to_pylist() == [2]
        expired(lake.store, rows.at(10_000))
        assert lake.store.paths() == []
    assert (manifests[0], manifests[-1]) == (last_manifest, None)


def test_a_killed_publication_leaves_the_old_evidence_or_the_new_one(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "before"
    lake, to = rows.lake_in(folder / "lake"), rows.lake_in(folder / "evidence").store
    for number in range(3):
        lake.commit(rows.unit(USAGE_SAMPLE, number), UnitContent(rows=rows.usage(number)), None)
        lake.commit(rows.unit(TARGET_UP, number), UnitContent(rows=rows.up(number)), None)
    publisher.publish(
        lake, rows.CLUSTER, to, rows.at(0), rows.at(2), pace=cadence(30_000), now_ms=rows.at(2)
    )
    days_of_copies = []
    for copy in copies("publish", tmp_path):
        store = rows.lake_in(copy / "evidence").store
        evidence = published_evidence.opened(store, rows.CLUSTER, rows.at(3), 2 * DAY_MS)
        assert evidence.note.stale == ""
        bucket = bucket_of("alice")
        samples = evidence.series(QuotaType.PRODUCE, [bucket])[bucket]["1"]
        days = (evidence.note.to_ms - evidence.note.from_ms) // DAY_MS
        assert len(samples) == 3 * days
        days_of_copies.append(days)
        dying.publish_again(copy)
        again = published_evidence.opened(store, rows.CLUSTER, rows.at(3), 2 * DAY_MS)
        assert again.note.to_ms == rows.at(3)
    assert (days_of_copies[0], days_of_copies[-1]) == (2, 3)
