"""A program whose children ingest a file and are killed, each some steps later; then the ingest runs again.

`python -m tests.evidence.ingest.dying FOLDER FILE` prints how many were killed, and in which copies of the lake the
second run gave other rows than an uninterrupted run.
"""

import json
import os
import signal
import sys
from pathlib import Path

from reconciler.evidence.ingest import dialect_tables, file_import
from reconciler.evidence.ingest.cluster_sources import ClusterSource
from reconciler.evidence.ingest.file_import import FileImportRequest
from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.lake import Lake
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, USAGE_SAMPLE
from tests.evidence.store.dying import die_before, load_libraries
from tests.fakes.clock import FakeClock

STRIDE = 11
"""The next process is killed this number of system calls later, which is not a multiple of those of a commit."""

SOURCE = ClusterSource(cluster="orders", cluster_id="id-o", scrape_ms=30_000)


def ingest(folder: Path, path: Path) -> Lake:
    """Do the same as `kquota usage ingest --file`."""
    lake = Lake(table_store.opened(str(folder), create=True), clock=FakeClock())
    files = FileImportRequest(paths=(path,), dialects=dialect_tables.shipped())
    file_import.read(lake, (SOURCE,), files, clock=FakeClock(1_800_000_000))
    return lake


def rows(lake: Lake) -> list[str]:
    """All rows of the lake."""
    tables = (USAGE_SAMPLE, TARGET_UP, BROKER_SAMPLE)
    return [repr(lake.read(lake.days(table), table=table).to_pylist()) for table in tables]


def main() -> None:
    """The parent opens no store before its children have ended."""
    load_libraries()
    folder, path = Path(sys.argv[1]), Path(sys.argv[2])
    killed = 0
    while killed < 400:
        child = os.fork()
        if child == 0:
            die_before(killed * STRIDE)
            ingest(folder / str(killed), path)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            break
        if code != -signal.SIGKILL:
            raise SystemExit(f"the ingest failed in copy {killed}: {code}")
        killed += 1
    expected = rows(ingest(folder / "alone", path))
    different = [
        copy for copy in range(killed) if rows(ingest(folder / str(copy), path)) != expected
    ]
    print(json.dumps({"killed": killed, "different": different}))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main()
