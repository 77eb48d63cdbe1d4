"""The table of attacks names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security-tests.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+) \| `(tests/[^`]+)` \|$", PAGE, re.MULTILINE)


def test_every_row_of_the_table_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    headings = [line for line in rows if line.startswith(("| attack or fault", "| ---"))]
    assert len(ROWS) == len(rows) - len(headings) > 50


@pytest.mark.parametrize(("attack", "node"), ROWS)
def test_every_named_test_of_an_attack_exists(attack: str, node: str) -> None:
    file, _, name = node.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }
    assert functions, f"{file} has no test"
    assert not name or name in functions, f"{attack}: {file} has no {name}"
