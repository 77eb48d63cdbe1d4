"""A program that repeats one piece of work on copies of a folder and is killed one step later in each copy.

`python -m tests.evidence.store.dying WORK FOLDER` copies `FOLDER/before` to `FOLDER/0`, `FOLDER/1`, …; a child works on
each and is killed by SIGKILL before its nth system call that changes the disk. The program ends with the first copy
in which the work completed, and prints the number of copies.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from reconciler.evidence.store import published_evidence
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.store import rows

CALLS = ("open", "fsync", "mkdir", "unlink", "replace", "rename")
MOST = 400


def update(folder: Path) -> None:
    """Replace a day."""
    lake = rows.lake_in(folder)
    lake.update(rows.unit(USAGE_SAMPLE), lambda _: UnitContent(rows=rows.usage(rates=(7, 7))))


def publish_again(folder: Path) -> None:
    """Copy one more day for previews."""
    lake, to = rows.lake_in(folder / "lake"), rows.lake_in(folder / "previews").store
    published_evidence.publish(lake, rows.CLUSTER, to)


WORKS: dict[str, Callable[[Path], None]] = {"update": update, "publish": publish_again}


def die_before(number: int) -> None:
    """End the process after this number of calls."""
    remaining = number

    def dying(act: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            nonlocal remaining
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            remaining -= 1
            return act(*arguments, **named)

        return run

    for name in CALLS:
        setattr(os, name, dying(getattr(os, name)))


def load_libraries() -> None:
    """Load the libraries that the first array of Arrow imports, so that children need not."""
    _ = pa.array([0])


def main() -> None:
    """Run the copies; children import nothing, and the parent never opens a store."""
    load_libraries()
    work, folder = WORKS[sys.argv[1]], Path(sys.argv[2])
    for number in range(MOST):
        copy = shutil.copytree(folder / "before", folder / str(number))
        child = os.fork()
        if child == 0:
            die_before(number)
            work(copy)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            print(number + 1)  # noqa: T201 - the test reads it
            return
        if code != -signal.SIGKILL:
            raise SystemExit(f"the work failed in copy {number}")
    raise SystemExit("the work did not end")


if __name__ == "__main__":
    main()
