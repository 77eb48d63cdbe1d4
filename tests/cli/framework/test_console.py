"""Tests of streams, colour and progress."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.cli.framework.commands import run_mapped
from reconciler.cli.framework.console import (
    Console,
    ProgressLine,
    has_colour,
)
from tests.cli.consoles import Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ticking:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def on_a_terminal(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, Terminal())


def completion(redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'"$0" -m reconciler completion bash {redirection}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("redirection", ["2>&-", "<&-"])
def test_closed_streams_cause_no_error(redirection):
    ran = completion(redirection)
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr


def test_a_result_that_nobody_can_read_is_an_error():
    ran = completion(">&-")
    assert (ran.returncode, ran.stderr) == (1, "error: standard output: Bad file descriptor\n")
    assert completion(">&- 2>&-").returncode == 1


def test_colour_is_used_on_terminals_only(monkeypatch):
    on_a_terminal(monkeypatch)
    assert Console.of_process({"TERM": "xterm"}).colour
    assert not Console.of_process({"TERM": "xterm", "NO_COLOR": "1"}).colour
    assert not Console.of_process({"TERM": "dumb"}).colour
    assert Console.of_process({"NO_COLOR": ""}).colour


@pytest.mark.parametrize(
    ("environment", "terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": ""}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_the_environment_takes_precedence_over_the_terminal(environment, terminal, coloured):
    assert has_colour(environment, terminal=terminal) is coloured


def test_a_pipe_has_no_width(capsys):
    assert Console.of_process({"COLUMNS": "80"}).width == 0


def test_a_pipe_gets_neither_colour_nor_questions(capsys):
    console = Console.of_process({})
    assert not any((console.colour, console.err_colour, console.err_terminal, console.asks))


def test_results_go_to_stdout_and_diagnostics_to_stderr():
    screen = Screen()
    screen.console.fact("fact")
    screen.console.warning("careful")
    screen.console.error("bad")
    screen.console.hint("do this")
    screen.console.hint("")
    assert screen.facts == "fact\n"
    assert screen.words == "warning: careful\nerror: bad\nhint: do this\n"


@pytest.mark.parametrize("width", [80, 120])
def test_messages_fold_at_the_terminal_and_commands_stay_whole(width):
    screen = Screen(err_width=width)
    command = f"kquota resolve --cluster {'long-name-' * 9} --user alice"
    words = "one of many words " * 9
    screen.console.error(words + "end")
    screen.console.hint(f"{words}{command}; or `git config {'x' * width} a b`, {words}")
    lines = screen.words.splitlines()
    assert (
        screen.words.split()
        == f"error: {words} end hint: {words}{command}; or `git config {'x' * width} a b`, {words}".split()
    )
    assert all(len(line) <= width for line in lines if "kquota" not in line and "git" not in line)
    assert any(command in line for line in lines)
    assert any("a b`" in line and "`git" in line for line in lines)


def test_a_closed_standard_error_does_not_stop_the_command():
    screen = Screen()
    screen.err.close()
    screen.console.error("bad")
    with ProgressLine(screen.console) as progress:
        progress("sending", 1, 2)


def test_long_work_shows_a_bar_on_a_terminal_and_erases_it():
    screen, clock = Screen(err_terminal=True), Ticking()
    with ProgressLine(screen.console, monotonic=clock) as progress:
        progress("sending", 0, 1000)
        clock.at += 2
        progress("sending", 500, 1000)
        progress("sending", 501, 1000)
    assert screen.words == "\rsending [############------------] 500/1,000\x1b[K\r\x1b[K"


@pytest.mark.parametrize(
    ("answer", "agreed"),
    [("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False), ("", False), ("yep\n", False)],
)
def test_only_yes_confirms(monkeypatch, answer, agreed):
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    screen = Screen()
    screen.console.question("Apply?")
    assert screen.console.answer() is agreed
    assert screen.words.startswith("Apply? [y/N] ")


def test_a_full_disk_behind_standard_output_is_named():
    with Path("/dev/full").open("w") as full:
        screen = Screen(stdout=full)

        def work() -> int:
            screen.console.fact("x")
            return 0

        assert run_mapped(screen.console, work) == 1
        assert screen.words == "error: standard output: No space left on device\n"
        screen.console.flush()


def test_a_closed_reader_causes_no_message():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        console = Screen(stdout=pipe).console
        console.fact("x")
        with pytest.raises(BrokenPipeError):
            console.flush()
        console.abandon_output()
        console.flush()


def test_work_of_unknown_length_is_counted():
    screen, clock = Screen(err_terminal=True), Ticking()
    with ProgressLine(screen.console, monotonic=clock) as progress:
        progress("reading documents", 0, 0)
        clock.at += 1
        progress("reading documents", 12_000, 0)
    assert screen.words == "\rreading documents: 12,000\x1b[K\r\x1b[K"
