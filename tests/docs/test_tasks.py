"""The README leads to the answers of usual questions within half a minute of reading."""

import re

import pytest

from tests.docs.tasks import MOST_SECONDS, PAGE, ROOT, TASKS, way_to


@pytest.mark.parametrize("task", TASKS)
def test_a_reader_of_the_readme_has_the_answer_within_half_a_minute(task: str) -> None:
    question, answer = TASKS[task]
    way = way_to(question)
    assert answer in way.answer
    assert way.seconds < MOST_SECONDS


def test_the_page_of_questions_is_linked_first() -> None:
    for page, address in (("README.md", "docs/how-do-i.md"), ("docs/README.md", "how-do-i.md")):
        links = re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text(encoding="utf-8"))
        assert links[0] == address


def test_the_page_of_questions_has_twenty_lines() -> None:
    assert PAGE.read_text(encoding="utf-8").count("\n- **") == 20
