"""Runs the tasks of an analysis: in this process and a bounded number of others, or on Spark. Both call the same function."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import repeat
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from reconciler.base.protocols import Progress
from reconciler.evidence.store.files.address import LakeAddress
from reconciler.evidence.store.files.table_reader import TableReader
from reconciler.evidence.store.lake import LakeReader

TASK_ROWS: Final = 1_000_000
"""Rows that one task reads, unless a single group needs more: the memory of a process is some 100 bytes for each."""

ALONE_S: Final = 1.0
"""Seconds in which this process works without others, because each takes half a second to start."""

MOST_PROCESSES: Final = 8


class Task(Protocol):
    """A part of an analysis: a value that can be sent to another process."""

    @property
    def rows(self) -> int:
        """The number of rows that it reads, about."""
        ...

    def run(self, lake: LakeReader) -> pa.Table:
        """Read the tables and return the rows of the result.

        Raises:
            LakeError: The lake cannot be read.
            QuotaValueError: A sample is duplicated or out of range.
        """
        ...


class Engine(Protocol):
    """Runs tasks."""

    def run(
        self, at: LakeAddress, tasks: Sequence[Task], schema: pa.Schema, progress: Progress
    ) -> Iterator[pa.Table]:
        """Yield the results in the order of the tasks; a table may have the rows of several tasks.

        Raises:
            KquotaError: As for :meth:`Task.run`; or the engine fails.
        """
        ...


class LocalEngine:
    """Runs tasks in processes of this machine, without a JVM."""

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or min(MOST_PROCESSES, os.cpu_count() or 1)

    def run(
        self, at: LakeAddress, tasks: Sequence[Task], schema: pa.Schema, progress: Progress
    ) -> Iterator[pa.Table]:
        """Yield the result of each task; as for :class:`Engine`."""
        for number, table in enumerate(self._results(at, tasks), 1):
            progress("recorded use", number, len(tasks))
            yield table.cast(schema)

    def _results(self, at: LakeAddress, tasks: Sequence[Task]) -> Iterator[pa.Table]:
        lake, began = LakeReader(TableReader(at)), time.monotonic()
        for number, task in enumerate(tasks):
            processes = min(self._processes, len(tasks) - number)
            if processes > 1 and time.monotonic() - began >= ALONE_S:
                yield from _in_processes(at, tasks[number:], processes)
                return
            yield task.run(lake)


def _in_processes(at: LakeAddress, tasks: Sequence[Task], processes: int) -> Iterator[pa.Table]:
    # A forked process would share locks of Arrow's threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield from pool.map(_run, repeat(at), tasks)


def _run(at: LakeAddress, task: Task) -> pa.Table:
    return task.run(lake_at(at))


@cache
def lake_at(at: LakeAddress) -> LakeReader:
    """Return the lake of an address, one for all tasks of a worker process."""
    return LakeReader(TableReader(at))


def by_cluster(tables: Iterator[pa.Table], schema: pa.Schema) -> dict[str, pa.Table]:
    """Return the rows of results by cluster id."""
    rows = pa.concat_tables([schema.empty_table(), *tables])
    clusters = rows["cluster_id"].unique().to_pylist()
    return {name: rows.filter(pa.compute.equal(rows["cluster_id"], name)) for name in clusters}


T = TypeVar("T")


def portions(
    items: Iterable[T], rows_of: Callable[[T], int]
) -> Iterator[tuple[tuple[T, ...], int]]:
    """Yield consecutive items with about :data:`TASK_ROWS` rows, and that number.

    Args:
        rows_of: The number of rows that an item needs.
    """
    part: list[T] = []
    total = 0
    for item in items:
        need = rows_of(item)
        if part and total + need > TASK_ROWS:
            yield tuple(part), total
            part, total = [], 0
        part.append(item)
        total += need
    if part:
        yield tuple(part), total
