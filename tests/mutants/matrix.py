"""The matrix: which fast test modules see each planted fault, and which faults only one module sees.

One run of the fast tests with coverage contexts says which modules execute a line, and how long each takes; the result
is kept in ``build/mutants`` until the product or the list of test modules changes. A fault is then run with the modules
that execute its changed line in one process: the named ones, then the cheapest first, up to `BOUND` seconds, until four
have seen it.
"""

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

from tests.mutants.fault import Fault

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "mutants"
WRITTEN = Path(__file__).with_name("matrix.txt")
BOUND = 30.0  # seconds of test modules for one fault
FAST = "not integration and not thorough"
OBSERVED = ("-p", "tests.mutants.observer", "-p", "no:randomly", "-p", "no:cacheprovider")
HEAD = "# Written by `python -m tests.mutants --matrix`: the fast test modules that see each planted fault.\n"
ONLY = "\n# Faults that one module alone sees.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Who sees a fault.

    Attributes:
        name: File and sentence of the fault.
        caught: The first test modules that fail.
    """

    name: str
    caught: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}\t{' '.join(self.caught) or 'NOBODY'}"


class Contexts:
    """Test modules by executed line, and their seconds."""

    def __init__(self, data: CoverageData, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self._data = data

    def modules(self, fault: Fault, text: str) -> list[str]:
        """The modules that execute the changed line, the cheapest first.

        A line that runs only when it is imported stands for its whole file.
        """
        path = next(path for path in self._data.measured_files() if path.endswith(f"/{fault.file}"))
        by_line = self._data.contexts_by_lineno(path)
        line = _changed_line(fault, text)
        while line > 0 and line not in by_line:
            line -= 1  # the statement begins further up
        modules = {name for name in by_line.get(line, ()) if name}
        if not modules:
            modules = {name for names in by_line.values() for name in names if name}
        return sorted(modules & self.seconds.keys(), key=lambda name: self.seconds[name])


def _changed_line(fault: Fault, text: str) -> int:
    """The first line that differs."""
    old, new = fault.old.splitlines(), fault.new.splitlines()
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old[:-1], new, strict=False))
    return text.count("\n", 0, text.index(fault.old)) + 1 + len(list(same))


def contexts(workers: int) -> Contexts:
    """The contexts of this state of the product, measured if they are not known yet.

    Raises:
        SystemExit: A fast test fails without any fault.
    """
    data, seconds, digest = CACHE / "contexts", CACHE / "seconds.json", CACHE / "digest"
    current = _digest()
    if not digest.exists() or digest.read_text(encoding="ascii") != current:
        shutil.rmtree(CACHE, ignore_errors=True)
        CACHE.mkdir(parents=True)
        coverage = [sys.executable, "-m", "coverage"]
        pytest = ["-m", "pytest", "-q", *OBSERVED, "-n", str(workers), "--dist", "loadfile"]
        environment = {**os.environ, "HYPOTHESIS_PROFILE": "quick", "MATRIX_SECONDS": str(seconds)}
        _ = subprocess.run(
            [*coverage, "run", f"--data-file={data}", *pytest, "-m", FAST],
            cwd=ROOT,
            env=environment,
            check=True,
        )
        _ = subprocess.run([*coverage, "combine", f"--data-file={data}"], cwd=ROOT, check=True)
        _ = digest.write_text(current, encoding="ascii")
    read = CoverageData(str(data))
    read.read()
    return Contexts(read, json.loads(seconds.read_text(encoding="ascii")))


def _digest() -> str:
    """Of the product's code and the names of test modules."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "reconciler").rglob("*.py")):
        digest.update(path.read_bytes())
    names = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py"))
    digest.update("\n".join(names).encode())
    return digest.hexdigest()


def row(folder: Path, fault: Fault, module_contexts: Contexts) -> Row:
    """Run a planted fault in a copy of the project, and say who sees it."""
    named = dict.fromkeys(test.partition("::")[0] for test in fault.tests)
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    other_modules = [
        module for module in module_contexts.modules(fault, text) if module not in named
    ]
    chosen_modules, seconds = list(named), 0.0
    for module in other_modules:
        seconds += module_contexts.seconds[module]
        if seconds > BOUND:
            break
        chosen_modules.append(module)
    caught = folder / "caught"
    caught.unlink(missing_ok=True)
    options = ("-q", "-m", FAST, *OBSERVED, "--continue-on-collection-errors")
    environment = {**os.environ, "PYTHONPATH": str(folder), "MATRIX_CAUGHT": str(caught)}
    with contextlib.suppress(
        subprocess.TimeoutExpired
    ):  # those that failed until then have seen it
        _ = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *chosen_modules],
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,
            timeout=10 * BOUND,
        )
    caught_names = caught.read_text(encoding="utf-8").splitlines() if caught.exists() else []
    names = tuple(name.removeprefix("tests/").removesuffix(".py") for name in caught_names)
    return Row(name=name_of(fault), caught=names)


def name_of(fault: Fault) -> str:
    """File and sentence of a fault."""
    return f"{fault.file.removeprefix('reconciler/').removesuffix('.py')}: {fault.what}"


def write(rows: Iterable[Row], faults: Iterable[Fault]) -> None:
    """Write the rows to the committed file; rows of other faults that are still planted stay."""
    new = {row.name: str(row) for row in rows}
    parts = WRITTEN.read_text(encoding="utf-8").partition(ONLY) if WRITTEN.exists() else ("",)
    old = {line.partition("\t")[0]: line for line in parts[0].splitlines() if "\t" in line}
    rows_by_name = {**old, **new}
    lines = [rows_by_name[name] for name in sorted(map(name_of, faults)) if name in rows_by_name]
    alone = sorted(
        f"{modules}\t{name}"
        for name, _, modules in (line.partition("\t") for line in lines)
        if " " not in modules and modules != "NOBODY"
    )
    text = "".join(f"{line}\n" for line in lines)
    only = "".join(f"{line}\n" for line in alone)
    _ = WRITTEN.write_text(f"{HEAD}{text}{ONLY}{only}", encoding="utf-8")
