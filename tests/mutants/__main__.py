"""The run: a copy of the project for each worker, one fault at a time, the named tests, a table.

``python -m tests.mutants [WORDS]`` runs the faults whose description or file contains all the words. It fails if a
fault survives, if its text is not found exactly once, if it cannot be imported, or if the tests fail without any
fault. With ``--matrix`` it runs each fault with all the fast test modules that execute its line, and writes who sees it
to ``tests/mutants/matrix.txt`` (two hours for all faults; ``tests/mutants/matrix.py`` says how).
"""

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.mutants import matrix
from tests.mutants.fault import Fault, read_faults

ROOT = matrix.ROOT
Result = TypeVar("Result")
FAULTS = (*read_faults(Path(__file__).with_name("faults.txt")),)
SECONDS = 90
BASELINE_SECONDS = 900  # all the tests of all faults, once
WORKERS = max(2, os.cpu_count() or 2)
COPIED = ("reconciler", "tests")
LINKED = (
    "ARCHITECTURE.md",
    "Dockerfile",
    "Makefile",
    "pyproject.toml",
    "tools",
    "crds",
    "charts",
    "docs",
    "examples",
    "README.md",
)
PYTEST = (
    "-m",
    "pytest",
    "-q",
    "-x",
    "-m",
    "not integration",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
)
RED, GREEN = 1, 0
UNSHRUNK = """
import hypothesis
from hypothesis import Phase  # a failure is all that is asked for: the smallest example is not read

hypothesis.settings.register_profile(
    "mutants", hypothesis.settings.get_profile("thorough"), phases=[Phase.explicit, Phase.generate]
)
hypothesis.settings.load_profile("mutants")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one fault."""

    fault: Fault  # the planted fault
    word: str  # `killed`, `SURVIVED`, `NOT FOUND` or `BROKEN`
    seconds: float  # wall time of its tests
    detail: str = ""  # the end of the output, unless it was killed

    @property
    def good(self) -> bool:
        """Whether the tests found the fault."""
        return self.word == "killed"


def copy_project(folder: Path) -> Path:
    """A separate project in which tests can run; the first run writes its bytecode."""
    for name in COPIED:
        _ = shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in LINKED:
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    with (folder / "tests" / "conftest.py").open("a") as conftest:
        _ = conftest.write(UNSHRUNK)
    return folder


def _copy_of(project: Path, folder: Path) -> Path:
    """The project and its bytecode, without that of tests, because pytest writes absolute paths into it."""
    rewritten = shutil.ignore_patterns("*-pytest-*.pyc")
    return shutil.copytree(project, folder, symlinks=True, ignore=rewritten)


def write_source(path: Path, text: str) -> None:
    """Write a module with a separate modification time: bytecode is checked by size and whole seconds."""
    seconds = int(path.stat().st_mtime) + 1
    _ = path.write_text(text)
    os.utime(path, (seconds, seconds))


def run_tests(
    folder: Path, tests: Iterable[str], *options: str, seconds: float = SECONDS
) -> tuple[int, str]:
    """Exit code and end of the output; a timeout counts as a failure, because a fault may cause a hang."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
    try:
        done = subprocess.run(
            [sys.executable, *PYTEST, *options, *tests],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return RED, f"no end within {seconds} s"
    return done.returncode, done.stdout[-1_500:]


@contextmanager
def planted(folder: Path, fault: Fault) -> Iterator[None]:
    """A copy of the project with the fault."""
    path = folder / fault.file
    text = path.read_text()
    write_source(path, text.replace(fault.old, fault.new))
    try:
        yield
    finally:
        write_source(path, text)


def judge(folder: Path, fault: Fault) -> Verdict:
    """Run the tests of a fault."""
    started = time.monotonic()
    if (times := (folder / fault.file).read_text().count(fault.old)) != 1:
        return Verdict(fault=fault, word="NOT FOUND", seconds=0.0, detail=f"{times} times")
    with planted(folder, fault):
        code, output = run_tests(folder, fault.tests)
    word = {RED: "killed", GREEN: "SURVIVED"}.get(code, "BROKEN")
    seconds = time.monotonic() - started
    return Verdict(fault=fault, word=word, seconds=seconds, detail="" if code == RED else output)


def run(faults: Sequence[Fault]) -> list[Verdict]:
    """All verdicts, in the order of the faults; prints each at once.

    Raises:
        SystemExit: The tests fail without any fault.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        first = copy_project(Path(place) / "0")
        tests = sorted({test for fault in faults for test in fault.tests})
        code, output = run_tests(first, tests, "-n", str(WORKERS), seconds=BASELINE_SECONDS)
        if code != GREEN:
            raise SystemExit(f"the tests are not green without any fault:\n{output}")
        return list(_in_copies(first, faults, judge, line))


def run_matrix(faults: Sequence[Fault]) -> list[matrix.Row]:
    """Who sees each fault, in the order of the faults; prints each at once."""
    module_contexts = matrix.contexts(WORKERS)

    def row(folder: Path, fault: Fault) -> matrix.Row:
        with planted(folder, fault):
            return matrix.row(folder, fault, module_contexts)

    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        return list(_in_copies(copy_project(Path(place) / "0"), faults, row, str))


def _in_copies(
    first: Path,
    faults: Sequence[Fault],
    result_of: Callable[[Path, Fault], Result],
    text_of: Callable[[Result], str],
) -> Iterator[Result]:
    """Results in the order of the faults; each worker has a copy of the project."""
    folders = queue.SimpleQueue[Path]()
    folders.put(first)
    for number in range(1, WORKERS):
        folders.put(_copy_of(first, first.with_name(str(number))))

    def in_a_folder(fault: Fault) -> Result:
        folder = folders.get()
        try:
            return result_of(folder, fault)
        finally:
            folders.put(folder)

    with ThreadPoolExecutor(WORKERS) as workers:
        for result in workers.map(in_a_folder, faults):
            say(text_of(result))
            yield result


def say(text: str) -> None:
    """Print one line and flush."""
    _ = sys.stdout.write(text + "\n")
    sys.stdout.flush()


def line(verdict: Verdict) -> str:
    """One row of the table."""
    return f"{verdict.word:9}  {verdict.seconds:5.1f} s  {matrix.name_of(verdict.fault)}"


def main(words: Sequence[str]) -> int:
    """Run the faults; return 0 if the tests find every fault."""
    is_matrix, words = "--matrix" in words, [word for word in words if word != "--matrix"]
    faults = [
        fault for fault in FAULTS if all(word in f"{fault.file} {fault.what}" for word in words)
    ]
    if not faults:
        say(f"no fault has all of these words: {' '.join(words)}")
        return 2
    if is_matrix:
        rows = run_matrix(faults)
        matrix.write(rows, FAULTS)
        return 0 if all(row.caught for row in rows) else 1
    started = time.monotonic()
    verdicts = run(faults)
    missed = [verdict for verdict in verdicts if not verdict.good]
    for verdict in missed:
        say(f"\n{line(verdict)}\n{verdict.detail}")
    say(
        f"\n{len(verdicts)} faults, {len(verdicts) - len(missed)} seen by the tests,"
        f" {len(missed)} not; {time.monotonic() - started:.0f} s"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
