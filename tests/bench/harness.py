"""How every figure is measured: whole processes, candidates interleaved in each round, medians, ratios within one run.

A sample is one new process. It is the command under test, timed from outside, or prints one JSON line with
its own measurements (CPU seconds, peak memory growth).
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 5
SAMPLE_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One candidate's samples of one figure, in the order they were taken."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> str:
        return f"{short(min(self.samples))}-{short(max(self.samples))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: the work, its figures and those of a peer, and the target."""

    work: str
    peer: str
    figures: Figures
    peer_figures: Figures | None
    unit: str
    bar: str
    verdict: Callable[[float], bool]
    value: float

    @property
    def met(self) -> bool:
        return self.verdict(self.value)


def at_most(bar: float) -> Callable[[float], bool]:
    return lambda value: value <= bar


def cost(
    work: str, peer: str, figures: Figures, peer_figures: Figures, bar: float, unit: str
) -> Row:
    """The share of a peer's cost, by the medians."""
    return Row(
        work=work,
        peer=peer,
        figures=figures,
        peer_figures=peer_figures,
        unit=unit,
        bar=f"<= {bar:g}x",
        verdict=at_most(bar),
        value=figures.median / peer_figures.median,
    )


def alone(work: str, figures: Figures, unit: str, *, most: float | None = None) -> Row:
    """A figure without a peer: its median is at most the target, or it is only measured."""
    return Row(
        work=work,
        peer="",
        figures=figures,
        peer_figures=None,
        unit=unit,
        bar="measured" if most is None else f"<= {most:g} {unit.removesuffix(' wall')}",
        verdict=at_most(float("inf") if most is None else most),
        value=figures.median,
    )


def short(value: float) -> str:
    """Three digits, or all of a large number."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def interleaved(
    candidates: Mapping[str, Callable[[], float | Mapping[str, float]]],
    *,
    rounds: int = ROUNDS,
    warmup: bool = False,
) -> dict[str, dict[str, Figures]]:
    """Candidate -> figure name -> samples; each round runs every candidate once, in turn."""
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in candidates}
    for number in range(rounds + warmup):
        for name, run in candidates.items():
            answer = run()
            if warmup and number == 0:
                continue
            for figure, value in ({"s": answer} if isinstance(answer, float) else answer).items():
                samples[name].setdefault(figure, []).append(value)
            say(f"  {name}: {json.dumps(answer)}")
    return {
        name: {figure: Figures(samples=tuple(values)) for figure, values in figures.items()}
        for name, figures in samples.items()
    }


def say(line: str) -> None:
    """Print progress on stderr; figures go to stdout at the end."""
    print(line, file=sys.stderr, flush=True)


def self_measured(*words: str) -> Callable[[], Mapping[str, float]]:
    """A sample that prints its own figures: ``python -m tests.bench.sample WORDS``."""

    def run() -> Mapping[str, float]:
        answer = subprocess.run(
            [sys.executable, "-m", "tests.bench.sample", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=SAMPLE_SECONDS,
        )
        if answer.returncode != 0:
            raise SystemExit(f"the sample {' '.join(words)} failed:\n{answer.stderr[-2000:]}")
        return {name: float(value) for name, value in json.loads(answer.stdout).items()}

    return run


def wall_of(
    command: Sequence[str],
    *,
    before: Callable[[], None] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    expect: str = "",
) -> Callable[[], Mapping[str, float]]:
    """A sample that is a whole command: wall and CPU seconds from start to exit.

    Args:
        command: The command; it must exit with 0 and print ``expect``.
        before: Prepares the state that the command needs; not timed.
        env: Additional environment variables.
        cwd: Working directory.
        expect: A text that the output must contain, so that a command without effect is not a sample.
    """

    def run() -> Mapping[str, float]:
        if before is not None:
            before()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=SAMPLE_SECONDS,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if answer.returncode != 0 or expect not in answer.stdout + answer.stderr:
            raise SystemExit(
                f"{' '.join(command)} ended with {answer.returncode}:\n{answer.stdout[-2000:]}\n{answer.stderr[-2000:]}"
            )
        cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        return {"wall": wall, "cpu": cpu}

    return run
