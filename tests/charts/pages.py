"""The commands of the documentation about Kubernetes, in their order, with their expected output."""

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("install-kubernetes.md", "operate.md")
BLOCK = re.compile(
    r"<!-- tested (on kubernetes|with the operator) -->\n```console\n(.*?)```", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command, and its output: `...` matches anything."""

    command: str
    output: str
    needs_operator: bool


def commands(page: str, *, with_operator: bool = False) -> list[Step]:
    """The commands of a page.

    Args:
        page: One of `PAGES`.
        with_operator: Include commands that need a running operator.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    steps: list[Step] = []
    for kind, block in BLOCK.findall(text):
        needs = kind == "with the operator"
        if with_operator or not needs:
            steps += _steps(block, needs_operator=needs)
    return steps


def _steps(block: str, *, needs_operator: bool) -> list[Step]:
    """A line after `$ ` starts a command, lines after `> ` continue it, the rest is output."""
    typed: list[list[str]] = []
    printed: list[list[str]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            typed.append([line[2:]])
            printed.append([])
        elif line.startswith(">") and not printed[-1]:
            typed[-1].append(line[2:])
        else:
            printed[-1].append(line)
    return [
        Step(
            command="\n".join(command),
            output="".join(f"{line}\n" for line in output),
            needs_operator=needs_operator,
        )
        for command, output in zip(typed, printed, strict=True)
    ]
