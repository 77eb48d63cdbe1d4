"""Runs the examples of the documents: a console block after ``<!-- tested -->`` is executed line by line and compared.

All blocks of one document share a copy of ``examples/``, a sandbox, and an environment without variables of the user.
``...`` in the expected output stands for anything; ``[exit N]`` as its last line is the exit code (default 0).
Standard error is not compared. Python blocks after ``<!-- tested -->`` run as scripts in the same place.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.processes import HANG_SECONDS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
    *(ROOT / "tests").glob("*.md"),
    *(ROOT / "tests" / "bench").rglob("*.md"),
]
BLOCK = re.compile(r"<!-- tested -->\n```(console|python)\n(.*?)```", re.DOTALL)
EXIT = re.compile(r"^\[exit (\d+)\]\n?\Z", re.MULTILINE)
CHECKER = doctest.OutputChecker()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command with its expected output."""

    command: str
    output: str
    code: int


def steps(block: str) -> list[Step]:
    """The commands of a console block; a command may continue after a backslash at the end of a line."""
    commands: list[Step] = []
    lines = block.splitlines(keepends=True)
    while lines:
        line = lines.pop(0)
        assert line.startswith("$ "), f"a console block begins with a command, not with {line!r}"
        command = line[2:]
        while command.endswith("\\\n"):
            command += lines.pop(0)
        output = ""
        while lines and not lines[0].startswith("$ "):
            output += lines.pop(0)
        code = EXIT.search(output)
        commands.append(
            Step(
                command=command.strip(),
                output=EXIT.sub("", output).rstrip("\n") + "\n" if output.strip() else "",
                code=int(code.group(1)) if code else 0,
            )
        )
    return commands


@contextmanager
def stage(folder: Path) -> Iterator[dict[str, str]]:
    """A copy of the examples with a running sandbox; returns the environment for commands."""
    shutil.copytree(ROOT / "examples", folder, dirs_exist_ok=True)
    tools = Path(sys.executable).parent
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "120",
        "PYTHONWARNINGS": "",
    }
    with subprocess.Popen(
        [tools / "kquota", "sandbox"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as sandbox:
        try:
            assert sandbox.stdout is not None
            bootstrap = sandbox.stdout.readline().strip().removeprefix("bootstrap.servers=")
            yield environment | {"KQUOTA_DEMO_BOOTSTRAP": bootstrap, "BOOTSTRAP": bootstrap}
        finally:
            sandbox.terminate()


def run_console(block: str, folder: Path, environment: dict[str, str]) -> None:
    for step in steps(block):
        answer = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            env=environment,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert answer.returncode == step.code, f"$ {step.command}\n{answer.stdout}\n{answer.stderr}"
        assert CHECKER.check_output(step.output, answer.stdout, flags), (
            f"$ {step.command}\nexpected by the document:\n{step.output}\noutput:\n{answer.stdout}"
        )


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_example_of_a_document_has_the_described_effect(path: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
    if not blocks or path.name == "quick-start.md":
        return
    with stage(tmp_path) as environment:
        for kind, block in blocks:
            if kind == "console":
                run_console(block, tmp_path, environment)
            else:
                subprocess.run(
                    [sys.executable, "-W", "error", "-c", block],
                    cwd=tmp_path,
                    check=True,
                    timeout=HANG_SECONDS,
                    env=environment,
                )


def test_the_quick_start_is_one_script_from_an_empty_folder(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "new", tmp_path / "examples"
    folder.mkdir()
    blocks = BLOCK.findall((ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8"))
    assert {kind for kind, _ in blocks} == {"console"}
    with stage(elsewhere) as environment:
        for _, block in blocks:
            run_console(block, folder, environment)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the code host makes them."""
    names: list[str] = []
    for heading in re.findall(
        r"^#{1,6} (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
    ):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.append(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return {
        f"{name}-{names[:place].count(name)}" if name in names[:place] else name
        for place, name in enumerate(names)
    }


def test_links_lead_to_files_and_headings() -> None:
    link = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
    broken = [
        f"{path.relative_to(ROOT)}: {target}#{anchor}"
        for path in PAGES
        for target, anchor in link.findall(path.read_text(encoding="utf-8"))
        for file in [path.parent / target if target else path]
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8")))
    ]
    assert not broken


def test_a_console_block_is_parsed_as_commands_with_output_and_exit_code() -> None:
    assert steps("$ kquota a \\\n  b\nx\n...\n[exit 3]\n$ true\n") == [
        Step(command="kquota a \\\n  b", output="x\n...\n", code=3),
        Step(command="true", output="", code=0),
    ]


def test_the_page_about_speed_repeats_figures_that_were_measured():
    rows = [
        line for line in (ROOT / "docs/benchmarks.md").read_text().splitlines() if line[:2] == "| "
    ]
    figures = {figure for row in rows for figure in re.findall(r"\d+\.\d+", row)}
    measured = (ROOT / "tests/bench/benchmarks.md").read_text()
    assert figures
    assert figures <= set(re.findall(r"\d+\.\d+", measured))


def test_an_example_of_a_temporary_limit_does_not_end_soon():
    """An example that is copied after its end has no effect."""
    written = re.compile(r"\b(?:until|ends?,)\W+(?:as )?\W?(20\d\d)-\d\d-\d\dT")
    places = [*PAGES, *(ROOT / "crds").glob("*.yaml"), *(ROOT / "examples").rglob("*.yaml")]
    years = {path.name: written.findall(path.read_text(encoding="utf-8")) for path in places}
    assert sum(map(len, years.values())) >= 8
    assert {
        name: those for name, those in years.items() if min(those, default="2035") < "2035"
    } == {}
