"""Every job of the table that needs no files of its own, one after the other in one session; a main file for all places.

`python -m tests.evidence.spark.every_job LAKE OUTPUT [REMOTE]`, or as the main file of spark-submit: it imports nothing of the tests.
"""

import json
import sys
import time
from pathlib import Path

from reconciler.evidence.spark import command_line
from reconciler.evidence.spark.runtime import job_runner, session
from reconciler.evidence.spark.runtime.job import silent
from reconciler.evidence.store.files.object_store import opened
from reconciler.evidence.store.lake import Lake

FROM, TO = 1_793_491_200_000, 1_793_577_600_000
SPAN = ["--from-ms", str(FROM), "--to-ms", str(TO)]
COMMANDS = {
    "rollup": [],
    "usage": SPAN,
    "capacity": [*SPAN, "--capacity", "c1=1000000:1000000"],
    "resolve": ["--to-ms", str(TO)],
    "history": SPAN,
    "recommend": ["--cluster", "c1", "--to-day", "2026-11-01", "--days", "1"],
}


class Clock:
    """The lake's time, the same in every place."""

    def now(self) -> float:
        """Noon of the next day."""
        return TO / 1000 + 43_200


def told(spark: object, folder: str) -> dict[str, object]:
    """The result of each job, or what it said instead."""
    lake = Lake(opened(folder), clock=Clock(), run_id="every")
    found: dict[str, object] = {}
    for name, words in COMMANDS.items():
        asked = command_line.parsed([name, "--lake", folder, *words])
        began = time.monotonic()
        result = asked.job.run(spark, lake, asked.settings, silent)
        found[name] = job_runner.document(result)
        sys.stderr.write(f"{name}: {time.monotonic() - began:.1f} s\n")
    return found


def main(words: list[str]) -> None:
    folder, output, *remote = words
    with session.opened(session.SessionSettings(remote=remote[0] if remote else None)) as spark:
        Path(output).write_text(json.dumps(told(spark, folder), default=str), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
