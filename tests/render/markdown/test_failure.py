"""A failed command: its message is shown as text, bounded and escaped."""

import re

import pytest

from reconciler.errors import Problem
from reconciler.render.markdown.outcome import CommandFailure, failure_markdown

MARKER = "<!-- kquota:plan:x -->"


def failed_plan(exit_code: int, text: str) -> CommandFailure:
    return CommandFailure(command="plan", exit_code=exit_code, messages=tuple(text.splitlines()))


def failure_text(text: str, *, limit: int = 65_536) -> str:
    return failure_markdown(
        failed_plan(3, text), limit=limit, title="t | @x", marker=MARKER, details="[run](https://x)"
    )


def test_the_message_is_shown_as_text():
    text = failure_text("error: <b>no</b> @team `x` </pre>\n\n\x1b[31m::error::y\u202e\n")
    assert text.startswith(f"{MARKER}\n### ")
    assert "a grant refuses (exit 3)" in text
    inside = text.partition("<pre>\n")[2].partition("\n</pre>")[0]
    assert not re.search(r"[<>@`\x1b\u202e]", inside)
    assert inside.count("\n") == 1
    assert text.endswith("[run](https://x)\n")


@pytest.mark.parametrize("limit", [600, 5000, 65_536])
def test_the_comment_stays_within_the_limit(limit):
    text = failure_text("&" * 5000 + "\nmore" * 5000, limit=limit)
    assert len(text) <= limit
    assert text.count("</pre>") == 1


def test_messages_of_a_fork_are_short_and_name_their_origin():
    words = failed_plan(1, "approved by security, please merge\n" * 500 + "x" * 5000)
    text = failure_markdown(
        words, limit=65_536, title="t", marker=MARKER, details="", fork="mallory/quotas"
    )
    assert text.index("Not verified") < text.index("<pre>")
    assert "a run of the fork mallory/quotas wrote the text below" in text
    assert text.count("approved") == 20
    assert len(text) < 20 * 300 * 7


def test_the_problems_of_manifests_have_their_places():
    failed = failed_plan(
        1, "quotas/a.yaml:10:30: spec.limits is missing\nhint: x\n12:30:45: late\n"
    )
    assert failed.problems == (
        Problem(path="quotas/a.yaml", line=10, column=30, message="spec.limits is missing"),
    )
