"""Cost of an operator with 1,000, 5,000 and 20,000 documents, on a real API server and a real broker.

Each count has separate servers. Wall times depend on the load of the machine, which is reported too; CPU seconds
are those of the whole process.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.brokers import VERSION
from tests.bench.harness import Figures, Row, say
from tests.bench.operator_load import (
    GROUP,
    Bench,
    cpu_seconds,
    document,
    is_ready,
    metric,
    until,
    workspace,
)
from tests.bench.page import NO_BAR
from tests.servers.kafka import KafkaCluster
from tests.servers.processes import Child

COUNTS = (1_000, 5_000, 20_000)
ROUNDS = 1
WRITERS = 4
"""Connections that create the documents."""

PACE = 0.05
AFTER_SECONDS = 3.0
"""Seconds after a change whose CPU time counts for it."""

STREAM_SECONDS = 20

IN_NAMESPACE = 5_000
"""Documents of one namespace."""

FigureSamples = dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFigure:
    """One line of the curve."""

    name: str  # name in samples
    work: str  # name in the table
    unit: str = "s"  # of the value
    # Number of documents -> largest value that meets the target.
    bars: Mapping[int, float] = field(default_factory=dict)


BESIDE = 600
"""Documents of another namespace that are created or deleted while one document is deleted."""


def bars(*values: float) -> Mapping[int, float]:
    """The largest values that meet the targets, one for each number of documents."""
    return dict(zip(COUNTS, values, strict=True))


FIGURES = (
    CurveFigure(name="ready", work="all documents Ready, wall", bars=bars(11, 32, 220)),
    CurveFigure(name="ready_cpu", work="the same, CPU of the operator"),
    CurveFigure(name="ready_api_cpu", work="the same, CPU of the API server"),
    CurveFigure(
        name="change", work="one changed document until Synced, wall", bars=bars(0.3, 0.5, 1.0)
    ),
    CurveFigure(
        name="change_cpu",
        work=f"one changed document and {AFTER_SECONDS:g} s, CPU of the operator",
        bars=bars(0.05, 0.1, 0.25),
    ),
    CurveFigure(name="deletion", work="one deletion (policy Delete), wall", bars=bars(2, 2, 5)),
    CurveFigure(
        name="deletion_cpu", work=f"one deletion and {AFTER_SECONDS:g} s, CPU of the operator"
    ),
    CurveFigure(
        name="deletion_beside",
        work=f"one deletion while {BESIDE} documents of another namespace are created or deleted, wall",
        bars=bars(2, 2, 5),
    ),
    CurveFigure(
        name="stream_cpu",
        work=f"a change a second for {STREAM_SECONDS} s, CPU of the operator",
        bars=bars(1, 2, 5),
    ),
    CurveFigure(name="idle_cpu", work="idle, CPU a minute", bars=bars(0.2, 0.4, 1.2)),
    CurveFigure(name="resident", work="resident memory", unit="MB", bars=bars(75, 105, 220)),
    CurveFigure(
        name="terminated",
        work="SIGTERM until the next process has reconciled everything, wall",
        bars=bars(2, 3.5, 12),
    ),
    CurveFigure(name="terminated_cpu", work="the same, CPU of the next process"),
    CurveFigure(
        name="killed", work="kill -9 until the next process has reconciled everything, wall"
    ),
)


def limits(producer_byte_rate: int) -> dict[str, Any]:
    """The limits of a document with another producer rate."""
    return {**document(0)["spec"]["limits"], "producerByteRate": producer_byte_rate}


def resident_megabytes(pid: int) -> float:
    """The resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def path_in(namespace: str) -> str:
    """The path of the documents of a namespace."""
    return f"{GROUP}/namespaces/{namespace}/clientquotas"


@dataclass(slots=True)
class OperatorSample:
    """One number of documents, with separate servers."""

    bench: Bench  # the Kubernetes
    bootstrap: str  # of the Kafka cluster
    count: int  # number of documents
    namespaces: Sequence[str] = ()  # their namespaces; a namespace holds 10,000 documents at most
    samples: FigureSamples = field(default_factory=dict)  # the figures so far

    @property
    def path(self) -> str:
        """The path of the documents that are changed and deleted: those of the first namespace."""
        return path_in(self.namespaces[0])

    def run(self) -> FigureSamples:
        """Measure all figures, in seconds and MB."""
        self.create()
        before = cpu_seconds(self.bench.kube.pid())
        start = time.perf_counter()
        child = self.bench.operator()
        try:
            self.wait_ready(child)
            self.note("ready", time.perf_counter() - start)
            self.note("ready_cpu", cpu_seconds(child.pid))
            self.note("ready_api_cpu", cpu_seconds(self.bench.kube.pid()) - before)
            time.sleep(AFTER_SECONDS)
            for number in range(5):
                self.change(child, number)
            for number in range(3):
                self.delete(child, f"user-{number}")
            self.delete_beside()
            self.stream(child)
            self.idle(child)
            self.note("resident", resident_megabytes(child.pid))
            child = self.restart(child, "terminated", lambda process: process.terminate())
            child = self.restart(child, "killed", lambda process: process.kill())
        finally:
            child.kill()
        return self.samples

    def note(self, name: str, value: float) -> None:
        """Record a value."""
        say(f"  {self.count:,}: {name} {value:.3g}")
        self.samples.setdefault(name, []).append(value)

    def create(self) -> None:
        """A QuotaCluster and all documents."""
        kube = self.bench.kube
        kube.apply(
            {
                "apiVersion": "kafka-quotas.io/v1alpha1",
                "kind": "QuotaCluster",
                "metadata": {"name": "bench"},
                "spec": {"bootstrapServers": self.bootstrap},
            }
        )
        count = -(-self.count // IN_NAMESPACE)
        self.namespaces = [kube.fresh_namespace() for _ in range(count)]
        self.post(range(self.count), lambda number: self.namespaces[number // IN_NAMESPACE])

    def post(self, numbers: Sequence[int], namespace_of: Callable[[int], str]) -> None:
        """Create documents by several connections."""

        def write(some: Sequence[int]) -> None:
            api = self.bench.kube.connect()
            for number in some:
                path = path_in(namespace_of(number))
                _ = api.call("POST", path, document(number)).need()
            api.close()

        with ThreadPoolExecutor(WRITERS) as pool:
            _ = list(pool.map(write, [numbers[n::WRITERS] for n in range(WRITERS)]))

    def get(self, name: str) -> dict[str, Any]:
        """Return a document."""
        return dict(self.bench.kube.api.get(f"{self.path}/{name}").need())

    def put(self, name: str, **spec: Any) -> int:
        """Change a document; return its new generation."""
        obj = self.get(name)
        obj["spec"] |= spec
        answer = self.bench.kube.api.call("PUT", f"{self.path}/{name}", obj).need()
        return int(answer["metadata"]["generation"])

    def wait_ready(self, child: Child) -> None:
        """Wait until the operator has written a status for each document; then check all, which costs the API server CPU."""
        port = self.bench.turn_port

        def is_written() -> bool:
            assert child.running, child.log_text()[-3000:]
            return (
                metric(port, "kquota_kubernetes_requests_total", "clientquotas/status")
                >= self.count
            )

        until(is_written, "the statuses")
        until(
            lambda: sum(map(self.bench.ready, self.namespaces)) == self.count,
            "all documents to be Ready",
            pace=1.0,
        )

    def timed(self, name: str, child: Child, is_done: Callable[[], bool]) -> None:
        """Wall time until something is done, and the CPU time of the operator until a moment later."""
        cpu, start = cpu_seconds(child.pid), time.perf_counter()
        until(is_done, name, pace=PACE)
        self.note(name, time.perf_counter() - start)
        time.sleep(AFTER_SECONDS)
        self.note(f"{name}_cpu", cpu_seconds(child.pid) - cpu)

    def change(self, child: Child, number: int) -> None:
        """Measure the change of one limit of one document."""
        name = f"user-{100 + number}"
        generation = self.put(name, limits=limits(2_000_000 + number))

        def is_synced() -> bool:
            present = self.get(name)
            return present["metadata"]["generation"] == generation and is_ready(present)

        self.timed("change", child, is_synced)

    def delete(self, child: Child, name: str) -> None:
        """Measure the deletion of a document and its limits."""
        _ = self.put(name, deletionPolicy="Delete")
        until(lambda: bool(self.get(name)["metadata"].get("finalizers")), "the finalizer")
        time.sleep(AFTER_SECONDS)
        self.bench.kube.api.call("DELETE", f"{self.path}/{name}").need()
        place = f"{self.path}/{name}"
        self.timed("deletion", child, lambda: self.is_gone(place))

    def delete_beside(self) -> None:
        """Measure a deletion while another namespace is filled, and one while its documents are deleted."""
        neighbour = self.bench.kube.fresh_namespace()
        numbers = range(self.count, self.count + BESIDE)
        collection = path_in(neighbour)

        def delete_all() -> None:
            api = self.bench.kube.connect()
            _ = api.call("DELETE", collection).need()
            api.close()

        for number, work in enumerate(
            (lambda: self.post(numbers, lambda _: neighbour), delete_all)
        ):
            name = f"user-{10 + number}"
            _ = self.put(name, deletionPolicy="Delete")
            until(lambda name=name: bool(self.get(name)["metadata"].get("finalizers")), "it")
            with ThreadPoolExecutor(1) as pool:
                beside, start = pool.submit(work), time.perf_counter()
                self.bench.kube.api.call("DELETE", f"{self.path}/{name}").need()
                place = f"{self.path}/{name}"
                until(lambda place=place: self.is_gone(place), "the deletion", pace=PACE)
                self.note("deletion_beside", time.perf_counter() - start)
                beside.result()
            time.sleep(AFTER_SECONDS)

    def is_gone(self, place: str) -> bool:
        """Whether an object does not exist."""
        return bool(self.bench.kube.api.get(place).status == 404)

    def stream(self, child: Child) -> None:
        """Measure one change per second."""
        cpu, start = cpu_seconds(child.pid), time.perf_counter()
        for number in range(STREAM_SECONDS):
            _ = self.put(f"user-{200 + number}", limits=limits(3_000_000 + number))
            time.sleep(max(start + number + 1 - time.perf_counter(), 0.0))
        time.sleep(AFTER_SECONDS)
        self.note("stream_cpu", cpu_seconds(child.pid) - cpu)

    def idle(self, child: Child) -> None:
        """Measure from the end of one resync to the end of the next."""
        self._wait_resync()
        cpu, start = cpu_seconds(child.pid), time.perf_counter()
        self._wait_resync()
        elapsed = time.perf_counter() - start
        self.note("idle_cpu", (cpu_seconds(child.pid) - cpu) * 60 / elapsed)

    def _wait_resync(self) -> None:
        port = self.bench.turn_port
        before = metric(port, "kquota_passes_total")
        until(lambda: metric(port, "kquota_passes_total") > before, "a resync", pace=5.0)

    def restart(self, child: Child, name: str, end: Callable[[Any], object]) -> Child:
        """End the process in a given way, start another one, and wait for its first reconciliation."""
        start = time.perf_counter()
        _ = end(child.process)
        _ = child.process.wait(30)
        following = self.bench.operator()
        port = self.bench.turn_port
        until(lambda: metric(port, "kquota_passes_total") >= 1.0, "a reconciliation")
        self.note(name, time.perf_counter() - start)
        self.note(f"{name}_cpu", cpu_seconds(following.pid))
        time.sleep(AFTER_SECONDS)
        return following


@contextmanager
def sample(count: int) -> Iterator[OperatorSample]:
    """Start servers for a given number of documents."""
    with workspace() as bench, KafkaCluster(VERSION) as kafka:
        yield OperatorSample(bench=bench, bootstrap=kafka.bootstrap(), count=count)


def curve_rows(counts: Sequence[int] = COUNTS) -> Iterator[Row]:
    """Every figure for every number of documents; the numbers take turns."""
    samples: dict[int, FigureSamples] = {count: {} for count in counts}
    loads: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(ROUNDS):
        for count in counts:
            loads[count].append(os.getloadavg()[0])
            with sample(count) as operator_sample:
                for name, values in operator_sample.run().items():
                    samples[count].setdefault(name, []).extend(values)
            loads[count].append(os.getloadavg()[0])
    day = time.strftime("%Y-%m-%d", time.gmtime())
    for count in counts:
        when = f"{day}, load {min(loads[count]):.1f} to {max(loads[count]):.1f}"
        for figure in FIGURES:
            yield curve_row(figure, count, samples[count][figure.name], when)


def curve_row(figure: CurveFigure, count: int, values: Sequence[float], when: str) -> Row:
    """One figure for one number of documents, with the time of measurement."""
    bar = figure.bars.get(count)
    return Row(
        work=figure.work,
        peer=f"{count:,} documents, {when}",
        figures=Figures(samples=tuple(values)),
        peer_figures=None,
        unit=figure.unit,
        bar=NO_BAR if bar is None else f"<= {bar:g} {figure.unit}",
        verdict=lambda value: bar is None or value <= bar,
        value=statistics.median(values),
    )
