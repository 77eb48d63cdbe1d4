"""The page about reasons equals the table, without missing or stale rows, and with valid links."""

import re
from pathlib import Path

import pytest

from reconciler.kube.status.reasons import Reason
from tools.reason_docs import PATH, text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / PATH).read_text(encoding="utf-8")


def test_the_page_equals_the_text_generated_from_the_table():
    assert text() == PAGE


@pytest.mark.parametrize("row", Reason, ids=lambda row: row.value)
def test_every_reason_has_a_row_and_a_section_with_the_next_step(row):
    line = next(page_line for page_line in PAGE.splitlines() if page_line.startswith(f"| [{row}]("))
    cells = [part.strip() for part in line.strip("|").split("|")]
    assert cells[2] == row.ready
    assert ("Stalled" in cells[3], "Reconciling" in cells[3]) == (row.stalled, row.reconciling)
    assert cells[4:6] == [row.kstatus, row.argo]
    section = PAGE.split(f"\n## {row}\n")[1].split("\n## ")[0]
    assert row.helps in section


def test_links_refer_to_existing_sections_and_pages():
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        page, _, section = target.partition("#")
        assert not page or (ROOT / "docs" / page).is_file(), target
        text = (ROOT / "docs" / page).read_text(encoding="utf-8") if page else PAGE
        headings = re.findall(r"^##+ (.+)$", text, re.MULTILINE)
        assert not section or section in {
            heading.lower().replace(" ", "-") for heading in headings
        }, target
