"""A program whose children ingest a file, each killed some steps later than the one before; then the ingest is run again.

`python -m tests.telemetry.dying FOLDER FILE` prints how many died, and in which copies of the lake the second run came
to other rows than a run that was left alone.
"""

import json
import os
import signal
import sys
from pathlib import Path

from reconciler.lake import store
from reconciler.lake.lake import Lake
from reconciler.telemetry import dialect_table, from_files
from reconciler.telemetry.days import DayAssembler
from reconciler.telemetry.from_files import FileImportRequest
from reconciler.telemetry.settings import ClusterSource
from reconciler.usage.tables import BROKER_SAMPLE, POINT, TARGET_UP, USAGE_SAMPLE
from tests.fakes.clock import FakeClock
from tests.lake.dying import die_before

STRIDE = 11
"""So many calls of the operating system later the next one dies: no multiple of what a commit takes."""

SOURCE = ClusterSource(cluster="orders", cluster_id="id-o", scrape_ms=30_000)


def ingest(folder: Path, path: Path) -> Lake:
    """What `kquota spark ingest --file` does."""
    lake = Lake(store.opened(str(folder), create=True), clock=FakeClock())
    files = FileImportRequest(paths=(path,), dialects=dialect_table.shipped())
    from_files.read(lake, (SOURCE,), files, clock=FakeClock(1_800_000_000))
    DayAssembler(lake, SOURCE.cluster_id, SOURCE.cadence, ()).bring_up()
    return lake


def rows(lake: Lake) -> list[str]:
    """Everything that was made."""
    tables = (POINT, USAGE_SAMPLE, TARGET_UP, BROKER_SAMPLE)
    return [repr(lake.read(lake.manifests(one), table=one).to_pylist()) for one in tables]


def main() -> None:
    """The parent opens no store until its children are done."""
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
    different = [one for one in range(killed) if rows(ingest(folder / str(one), path)) != expected]
    print(json.dumps({"killed": killed, "different": different}))  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main()
