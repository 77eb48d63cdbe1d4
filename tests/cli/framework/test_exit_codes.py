"""The exit code of each error, the precedence of exit codes, and no traceback without --debug."""

import inspect
import itertools
import re
from pathlib import Path

import click
import pytest

from reconciler import errors
from reconciler.cli.framework.commands import (
    MEANINGS,
    PRECEDENCE,
    PRECEDENCE_TEXT,
    ExitCode,
    run_mapped,
    worst,
)
from reconciler.cli.main import HELP
from tests.cli.consoles import Screen


def raising(error: BaseException):
    def work() -> int:
        raise error

    return work


MAPPED = [
    (errors.UsageError("no"), 1),
    (errors.ConfigError("no"), 1),
    (errors.ManifestErrors([errors.Problem("a.yaml", 3, 5, "no")]), 1),
    (errors.AuthenticationError("no"), 1),
    (errors.WrongCluster("no", expected="a", actual="b"), 3),
    (errors.PlanRefused("no", violations=["too many removals"]), 3),
    (errors.StalePlan("no", differences=["alice changed"]), 4),
    (errors.Interrupted("stopped"), 130),
    (click.UsageError("no"), 1),
    (click.BadParameter("no"), 1),
    (click.Abort(), 130),
    (KeyboardInterrupt(), 130),
    (PermissionError(13, "Permission denied", "/x"), 1),
    (RuntimeError("surprise"), 1),
    (RecursionError(), 1),
    (ExceptionGroup("two", [errors.PlanRefused("a"), errors.StalePlan("b")]), 4),
    (SystemExit(2), 1),
    (SystemExit(0), 0),
    (click.exceptions.Exit(0), 0),
]


@pytest.mark.parametrize(("error", "code"), MAPPED, ids=lambda value: repr(value)[:40])
def test_every_error_has_one_exit_code_and_no_traceback(error, code):
    screen = Screen()
    assert run_mapped(screen.console, raising(error)) == code
    assert "Traceback" not in screen.words
    assert screen.facts == ""


def test_every_error_class_is_mapped_to_its_own_exit_code():
    tree = [
        member
        for member in vars(errors).values()
        if inspect.isclass(member) and issubclass(member, errors.KquotaError)
    ]
    assert len(tree) > 20
    assert {result.exit_code for result in tree} == {1, 3, 4, 130}
    assert {result.exit_code for result in tree} <= set(ExitCode)


def test_errors_contain_details_and_the_next_step():
    screen = Screen()
    error = errors.PlanRefused("two violations", violations=["a", "b"], hint="raise --max-removals")
    run_mapped(screen.console, raising(error))
    assert screen.words == "error: two violations\n  - a\n  - b\nhint: raise --max-removals\n"


def test_problems_of_manifests_are_one_per_line_in_the_format_of_editors():
    screen = Screen()
    problems = [errors.Problem("b.yaml", 1, 1, "x"), errors.Problem("a.yaml", 3, 5, "y")]
    run_mapped(screen.console, raising(errors.ManifestErrors(problems, hint="h")))
    assert screen.words == "a.yaml:3:5: y\nb.yaml:1:1: x\nhint: h\n"


def test_a_fault_of_the_program_is_one_line_that_names_the_debug_option(monkeypatch):
    screen = Screen()
    monkeypatch.delenv("KQUOTA_DEBUG", raising=False)
    run_mapped(screen.console, raising(RuntimeError("surprise\nin two lines")))
    assert screen.words == (
        "error: internal error (a bug in kquota): RuntimeError: surprise in two lines\n"
        "hint: run again with KQUOTA_DEBUG=1 to see the traceback, and report it\n"
    )


def test_the_traceback_is_printed_when_it_is_requested(monkeypatch):
    screen = Screen()
    monkeypatch.setenv("KQUOTA_DEBUG", "1")
    run_mapped(screen.console, raising(errors.UsageError("no")))
    assert "Traceback" in screen.words


def test_the_precedence_of_exit_codes_is_one_four_three_five_two():
    assert [int(code) for code in PRECEDENCE] == [130, 1, 4, 3, 5, 2, 0]
    assert sorted(PRECEDENCE) == sorted(ExitCode)
    for first, second in itertools.combinations(PRECEDENCE, 2):
        assert worst([second, first]) == worst([first, second]) == first
    assert worst([]) == ExitCode.DONE


DOCS = Path(__file__).parents[3] / "docs"


def test_every_exit_code_has_one_line_in_the_help_in_order_of_precedence():
    assert list(MEANINGS) == sorted(ExitCode)
    for code, meaning in MEANINGS.items():
        assert f"\n  {int(code):<5}{meaning}\n" in HELP
        assert len(meaning) <= 71, "the line is not wrapped"
    assert PRECEDENCE_TEXT == "130, 1, 4, 3, 5, 2"
    assert f"the first of these counts: {PRECEDENCE_TEXT}." in HELP


def test_the_page_about_fleets_lists_every_exit_code_in_order_of_precedence():
    assert f" the first of {PRECEDENCE_TEXT} and 0 " in (DOCS / "fleets.md").read_text()


def test_the_quick_start_lists_every_exit_code():
    text = (DOCS / "quick-start.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("Exit codes: ")]
    assert {int(code) for code in re.findall(r"\b\d+\b", line)} == set(ExitCode)


def test_quoted_text_in_an_error_cannot_forge_a_line_or_a_colour():
    screen = Screen()
    error = errors.PlanRefused("a\nerror: b\x1b[31m", violations=["c\nd"], hint="::set-output x")
    run_mapped(screen.console, raising(error))
    assert screen.words == (
        "error: a\\u000aerror: b\\u001b[31m\n  - c\\u000ad\nhint: :\\u003aset-output x\n"
    )


def test_a_problem_without_a_line_names_its_path():
    screen = Screen()
    run_mapped(screen.console, raising(errors.ManifestErrors([errors.Problem("a", 0, 0, "no")])))
    assert screen.words == "error: a: no\n"


def test_choices_of_a_missing_option_are_on_one_line(kquota):
    ran = kquota("import", "quotas.yaml")
    assert ran.code == 1
    assert "error: Missing option '--from'. Choose from: kafka-configs, rpk, " in ran.err
