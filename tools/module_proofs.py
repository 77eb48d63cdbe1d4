"""Checks that each test module that ``tests/module_proofs.txt`` lists runs the functions of its module.

Usage: ``python -m tools.module_proofs [PLACE...]``, for example ``python -m tools.module_proofs reconcile kube/run``. It runs
the listed test modules under coverage, one context for each file, and prints each row whose test module runs fewer than
half of the functions of its module, with the files that run most. Exit code 1 if there is one or a test fails. Code that
runs at import counts for every test module. Tests on real servers, and rows that list only such tests, are left out.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import coverage
import pytest

ROOT: Final = Path(__file__).parents[1]
LEAST: Final = 0.5
"""Minimum share of the functions of a module that its listed test module must run."""


class FileContexts:
    """A pytest plugin that switches the coverage context for each test module, its fixtures included."""

    def __init__(self, measurement: coverage.Coverage) -> None:
        self._measurement = measurement
        self.files: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Switch to the context of the test's file."""
        file = nodeid.partition("::")[0]
        self.files.add(file)
        self._measurement.switch_context(file)


def listed(folders: Sequence[str]) -> dict[str, str]:
    """Return module and test module of the rows below one of the folders; all rows without folders."""
    lines = (ROOT / "tests" / "module_proofs.txt").read_text(encoding="utf-8").splitlines()
    rows = dict(line.split() for line in lines if not line.startswith("#"))
    return {
        module: test
        for module, test in rows.items()
        if not folders or module in folders or module.startswith(tuple(f"{at}/" for at in folders))
    }


def functions_of(module: Path) -> Iterator[frozenset[int]]:
    """Yield the lines of the body of each function, nested functions included; without stubs and overloads."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = [
                line
                for line in node.body
                if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            ]
            if body:
                yield frozenset(range(body[0].lineno, (body[-1].end_lineno or 0) + 1))


def shares(module: Path, contexts: Mapping[int, Sequence[str]]) -> dict[str, float]:
    """Return the share of a module's functions that each test file ran; empty for a module without functions."""
    functions = list(functions_of(module))
    counts: dict[str, int] = defaultdict(int)
    for lines in functions:
        for name in {name for line in lines for name in contexts.get(line, ())}:
            counts[name] += 1
    return {name: number / len(functions) for name, number in counts.items()}


def main(folders: Sequence[str]) -> int:
    """Run the listed test modules, print the rows below :data:`LEAST`, and return the exit code."""
    rows = listed(folders)
    measurement = coverage.Coverage(data_file=None, source=[str(ROOT / "reconciler")], branch=False)
    contexts = FileContexts(measurement)
    measurement.start()
    code = pytest.main(
        [
            "-q",
            "-p",
            "no:randomly",
            "-m",
            "not integration",
            *sorted({str(ROOT / "tests" / test) for test in rows.values()}),
        ],
        plugins=[contexts],
    )
    measurement.stop()
    measured = measurement.get_data()
    weak = 0
    for module, test in rows.items():
        path = ROOT / "reconciler" / module
        by_test = shares(path, measured.contexts_by_lineno(str(path)))
        imported = by_test.pop("", 0.0)
        own = max(by_test.get(f"tests/{test}", 0.0), imported)
        if own >= LEAST or f"tests/{test}" not in contexts.files or not any(functions_of(path)):
            continue
        weak += 1
        best = sorted(by_test.items(), key=lambda item: -item[1])[:3]
        print(
            f"{module}: {test} runs {own:.0%}; best:",
            ", ".join(f"{name} {share:.0%}" for name, share in best),
        )
    print(f"{len(rows)} rows, {weak} weak")
    return int(bool(weak) or int(code))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
