"""The run: a copy of the project for each worker, one fault at a time, the named tests, a table.

``python -m tests.mutants [WORDS]`` runs the faults whose description or file contains all the words. It fails if a
fault survives, if its text is not found exactly once, if it cannot be imported, or if the tests fail without any
fault.
"""

import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import adapters, core, hosts, manifests, recorded_use
from tests.mutants.fault import Fault

ROOT = Path(__file__).resolve().parents[2]
FAULTS = (
    *core.FAULTS,
    *adapters.FAULTS,
    *manifests.FAULTS,
    *hosts.FAULTS,
    *recorded_use.FAULTS,
)
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
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
LAYERS = (
    ("tests/test_", "rules for the tree"),
    ("tests/quota/", "pure core: laws and examples"),
    ("tests/wire/", "bytes and golden files"),
    ("tests/manifest/", "documents and texts"),
    ("tests/render/", "documents and texts"),
    ("tests/base/", "shared ground"),
    ("tests/inventory/", "shared ground"),
    ("tests/reconcile/", "steps with fake ports"),
    ("tests/app/", "steps with fake ports"),
    ("tests/simulation/", "simulated world"),
    ("tests/client/", "client against the sandbox broker"),
    ("tests/kube/", "operator against a fake API server"),
    ("tests/cli/", "commands against the sandbox broker"),
    ("tests/forge/", "code hosts, git"),
    ("tests/git/", "code hosts, git"),
    ("tests/usage/", "recorded use: models"),
    ("tests/evidence/", "recorded use: ingest and store"),
)
"""Start of a test's path -> its layer."""
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
    failed: str = ""  # the first test that failed, as pytest names it; empty if the run was stopped

    @property
    def layer(self) -> str:
        """The layer of the failed test; that of the fault's first test if the run printed no name."""
        test = self.failed or self.fault.tests[0]
        return next((layer for start, layer in LAYERS if test.startswith(start)), "elsewhere")

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


def judge(folder: Path, fault: Fault) -> Verdict:
    """Plant the fault, run its tests, remove the fault."""
    started = time.monotonic()
    path = folder / fault.file
    text = path.read_text()
    if text.count(fault.old) != 1:
        return Verdict(
            fault=fault, word="NOT FOUND", seconds=0.0, detail=f"{text.count(fault.old)} times"
        )
    write_source(path, text.replace(fault.old, fault.new))
    try:
        code, output = run_tests(folder, fault.tests)
    finally:
        write_source(path, text)
    word = {RED: "killed", GREEN: "SURVIVED"}.get(code, "BROKEN")
    seconds = time.monotonic() - started
    failed = FAILED.search(output)
    return Verdict(
        fault=fault,
        word=word,
        seconds=seconds,
        detail="" if code == RED else output,
        failed=failed[1] if failed else "",
    )


def run(faults: Sequence[Fault]) -> list[Verdict]:
    """All verdicts, in the order of the faults; prints each at once."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        first = copy_project(Path(place) / "0")
        tests = sorted({test for fault in faults for test in fault.tests})
        code, output = run_tests(first, tests, "-n", str(WORKERS), seconds=BASELINE_SECONDS)
        if code != GREEN:
            raise SystemExit(f"the tests are not green without any fault:\n{output}")
        folders: queue.SimpleQueue[Path] = queue.SimpleQueue()
        folders.put(first)
        for number in range(1, WORKERS):
            folders.put(_copy_of(first, Path(place) / str(number)))

        def in_a_folder(fault: Fault) -> Verdict:
            folder = folders.get()
            try:
                return judge(folder, fault)
            finally:
                folders.put(folder)

        verdicts = []
        with ThreadPoolExecutor(WORKERS) as workers:
            for verdict in workers.map(in_a_folder, faults):
                say(line(verdict))
                verdicts.append(verdict)
    return verdicts


def say(text: str) -> None:
    """Print one line and flush."""
    _ = sys.stdout.write(text + "\n")
    sys.stdout.flush()


def line(verdict: Verdict) -> str:
    """One row of the table."""
    fault = verdict.fault
    file = fault.file.removeprefix("reconciler/")
    layer = verdict.layer if verdict.good else ""
    return f"{verdict.word:9}  {verdict.seconds:5.1f} s  {layer:36}  {file:36}  {fault.what}"


def layer_table(verdicts: Iterable[Verdict]) -> str:
    """The number of faults that each layer of the tests finds, largest first."""
    counts = Counter(verdict.layer for verdict in verdicts if verdict.good)
    return "\n".join(f"{count:5}  {layer}" for layer, count in counts.most_common())


def main(words: Sequence[str]) -> int:
    """Run the faults; return 0 if the tests find every fault."""
    faults = [
        fault for fault in FAULTS if all(word in f"{fault.file} {fault.what}" for word in words)
    ]
    if not faults:
        say(f"no fault has all of these words: {' '.join(words)}")
        return 2
    started = time.monotonic()
    verdicts = run(faults)
    missed = [verdict for verdict in verdicts if not verdict.good]
    for verdict in missed:
        say(f"\n{line(verdict)}\n{verdict.detail}")
    say(f"\nfaults  caught by\n{layer_table(verdicts)}")
    say(
        f"\n{len(verdicts)} faults, {len(verdicts) - len(missed)} seen by the tests,"
        f" {len(missed)} not; {time.monotonic() - started:.0f} s"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
