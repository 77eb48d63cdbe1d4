"""The table of attacks names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "tests" / "security-tests.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+) \| `(tests/[^`]+)` \|$", PAGE, re.MULTILINE)


def test_every_row_of_the_table_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    headings = [line for line in rows if line.startswith(("| attack or fault", "| ---"))]
    assert len(ROWS) == len(rows) - len(headings) > 50


def test_every_named_test_of_an_attack_exists() -> None:
    for attack, node in ROWS:
        file, _, name = node.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        functions = re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE)
        assert functions, f"{file} has no test"
        assert not name or name in functions, f"{attack}: {file} has no {name}"
