"""The pictures of plans in the terminal: `python -m tests.render.terminal_picture` generates them.

Each is the output of the real command for a project of `examples/`, against a sandbox, as an SVG with its text.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
PROJECTS = {"plan-terminal.svg": "examples", "budgets-terminal.svg": "examples/budgets"}
"""The picture of each project."""
COMMAND = "kquota plan --cluster demo"
CLUSTER_ID = "kq9Xy2mWQ4mJ0aZt7Lr1bw"
COLUMNS, LINES = 120, 34
CHARACTER, LINE, MARGIN = 8.4, 19, 16
TEXT = (
    'role="img" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14"'
    ' fill="#cdd6f4" xml:space="preserve"'
)
COLOURS = {
    "31": "#f38ba8",
    "32": "#a6e3a1",
    "33": "#f9e2af",
    "34": "#89b4fa",
    "35": "#cba6f7",
    "36": "#94e2d5",
    "2": "#7f849c",
}
"""The terminal's own colours, on a dark background."""

_ANSI = re.compile(r"\x1b\[([0-9;]*)m")


def spans(line: str) -> Iterator[tuple[str, str]]:
    """The pieces of a line of terminal output, each with the attributes of its SVG text."""
    attributes = ""
    position = 0
    for match in [*_ANSI.finditer(line), None]:
        text = line[position : None if match is None else match.start()]
        if text:
            yield text, attributes
        if match is not None:
            position = match.end()
            codes = [code.lstrip("0") for code in match[1].split(";")]
            colour = next((COLOURS[code] for code in codes if code in COLOURS), "")
            attributes = f' fill="{colour}"' if colour else ""
            attributes += ' font-weight="bold"' if "1" in codes else ""


def picture(command: str, output: str) -> str:
    """An SVG of a command and the first lines of its output."""
    printed = output.rstrip("\n").split("\n")
    lines = [f"\x1b[1m$ {command}\x1b[0m", *printed[:LINES]]
    lines += ["\x1b[2m…\x1b[0m"] if len(printed) > LINES else []
    longest = max(len("".join(text for text, _ in spans(line))) for line in lines)
    width = round(CHARACTER * longest + 2 * MARGIN)
    height = LINE * len(lines) + 2 * MARGIN
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 1) - 5}">'
        + "".join(f"<tspan{attributes}>{escape(text)}</tspan>" for text, attributes in spans(line))
        + "</text>"
        for number, line in enumerate(lines)
    ]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {TEXT}>',
            f"<title>{escape(command)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1e1e2e"/>',
            *rows,
            "</svg>\n",
        )
    )


def output_of(command: str, project: str) -> str:
    """The output of the command in a copy of a project of the examples, with a sandbox, in colour."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT)}
    environment.pop("NO_COLOR", None)
    program = [sys.executable, "-m", "reconciler"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [*program, "sandbox", "--cluster-id", CLUSTER_ID],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as sandbox,
    ):
        try:
            shutil.copytree(ROOT / "examples", Path(folder) / "examples")
            assert sandbox.stdout is not None
            bootstrap = sandbox.stdout.readline().strip().removeprefix("bootstrap.servers=")
            done = subprocess.run(
                [*program, *command.split()[1:]],
                cwd=Path(folder) / project,
                env=environment | {"KQUOTA_DEMO_BOOTSTRAP": bootstrap, "FORCE_COLOR": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            sandbox.terminate()
    assert done.returncode in {0, 3}, done.stderr
    return done.stdout


def main() -> None:
    """Write the pictures."""
    for name, project in PROJECTS.items():
        text = picture(COMMAND, output_of(COMMAND, project))
        (PICTURES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
