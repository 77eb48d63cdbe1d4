"""A failed command: its message is shown as text, bounded and escaped."""

from reconciler.errors import Problem
from reconciler.render.markdown.failure import CommandFailure


def failed_plan(exit_code: int, text: str) -> CommandFailure:
    return CommandFailure(command="plan", exit_code=exit_code, messages=tuple(text.splitlines()))


def test_the_problems_of_manifests_have_their_places():
    failed = failed_plan(
        1, "quotas/a.yaml:10:30: spec.limits is missing\nhint: x\n12:30:45: late\n"
    )
    assert failed.problems == (
        Problem(path="quotas/a.yaml", line=10, column=30, message="spec.limits is missing"),
    )
