"""A process that is killed at any step leaves the old or the new day, and the next run continues."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from reconciler.evidence.store import published_evidence
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.usage.samples import DAY_MS, QuotaType
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


def test_a_killed_writer_leaves_the_old_day_or_the_new_one(tmp_path: Path) -> None:
    rows.lake_in(tmp_path / "before").put(UNIT, UnitContent(rows=rows.usage()), None)
    rates_of_copies = []
    for folder in copies("update", tmp_path):
        lake = rows.lake_in(folder)
        rates = lake.read(lake.days(USAGE_SAMPLE), table=USAGE_SAMPLE)["rate_units"].to_pylist()
        assert rates in ([10, 20, 30], [7, 7])
        rates_of_copies.append(rates)
        assert lake.replace(UNIT, UnitContent(rows=rows.usage(rates=(8,)))).rows == 1
        assert {path.name for path in (folder / UNIT.path).parent.iterdir()} == {
            ".lock",
            "part.parquet",
        }
    assert (rates_of_copies[0], rates_of_copies[-1]) == ([10, 20, 30], [7, 7])


def test_a_killed_copy_for_previews_leaves_days_that_are_whole(tmp_path: Path) -> None:
    folder = tmp_path / "before"
    lake = rows.lake_in(folder / "lake")

    def record(number: int) -> None:
        lake.put(rows.unit(USAGE_SAMPLE, number), UnitContent(rows=rows.usage(number)), None)
        lake.put(rows.unit(TARGET_UP, number), UnitContent(rows=rows.up(number)), None)

    record(0)
    record(1)
    dying.publish_again(folder)
    record(2)
    days_of_copies = []
    for copy in copies("publish", tmp_path):
        store = rows.lake_in(copy / "previews").store
        evidence = published_evidence.opened(store, rows.CLUSTER, rows.at(3), 2 * DAY_MS)
        assert evidence.note.stale == ""
        bucket = bucket_of("alice")
        samples = evidence.series(QuotaType.PRODUCE, [bucket])[bucket]["1"]
        days = len(samples) // 3
        assert days in {2, 3}
        days_of_copies.append(days)
        dying.publish_again(copy)
        again = published_evidence.opened(store, rows.CLUSTER, rows.at(3), 2 * DAY_MS)
        assert len(again.series(QuotaType.PRODUCE, [bucket])[bucket]["1"]) == 9
    assert (days_of_copies[0], days_of_copies[-1]) == (2, 3)
