"""Messages of the interpreter and of libraries are written without secrets, and cannot forge lines or colours."""

import gc
import logging
import sys
import threading
import warnings
from collections.abc import Callable

import pytest

from reconciler.base.redaction import remember
from reconciler.cli.framework.diagnostics import DiagnosticsHandler, escape_diagnostics
from reconciler.cli.main import main
from tests.cli.consoles import Screen

PLANTED = "pl4nted-Diagnostic-secret"
HOSTILE = {
    "a secret that this process remembers": f"refused: {PLANTED}",
    "credentials in a URL": "refused: http://kquota:pl4nted-in-url@proxy.example:3128/",
    "a colour": "\x1b[31mrefused: \x1b[0m",
    "a line break and a command to GitHub": "refused: \n::error::forged",
    "a carriage return and a command to GitHub": "refused: \r::error::forged",
    "a command to Azure Pipelines": "refused: ##[error]forged",
    "a fold of GitLab's log": "refused: \nsection_start:1:forged",
    "text that reorders its line": "refused: \u202egnorw",
    "half of a surrogate pair": "refused: \udc80",
}
LOG = logging.getLogger("tests.cli.diagnostics")


@pytest.fixture
def screen(monkeypatch):
    """A screen that receives the standard error of this process; the hooks are restored at the end."""
    for module, name in (
        (logging, "lastResort"),
        (warnings, "showwarning"),
        (threading, "excepthook"),
        (sys, "unraisablehook"),
        (sys, "excepthook"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(LOG, "parent", None)  # whose handlers are those of the test runner
    screen = Screen()
    escape_diagnostics(screen.console)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield screen


def fail(text: str) -> None:
    raise OSError(text) from KeyError(text)


def warn(text: str) -> None:
    warnings.warn(text, ResourceWarning, stacklevel=1)


def log(text: str) -> None:
    LOG.warning("said %s", text)


def log_a_traceback(text: str) -> None:
    try:
        fail(text)
    except OSError:
        LOG.exception("it failed")


def log_wrong_arguments(text: str) -> None:
    LOG.error("no place for arguments", text)  # noqa: PLE1205 - the fault of a library


def let_a_thread_die(text: str) -> None:
    thread = threading.Thread(target=fail, args=(text,))
    thread.start()
    thread.join()


def fail_while_ending(text: str) -> None:
    class Ending:
        def __del__(self) -> None:
            fail(text)

    _ = Ending()
    del _
    gc.collect()


def raise_outside_of_every_command(text: str) -> None:
    try:
        fail(text)
    except OSError as error:
        sys.excepthook(type(error), error, error.__traceback__)


WAYS: dict[str, tuple[Callable[[str], None], str]] = {
    "a warning": (warn, "ResourceWarning"),
    "a log record": (log, "warning: said"),
    "a log record with a traceback": (log_a_traceback, "warning: it failed"),
    "a log record whose arguments do not fit": (
        log_wrong_arguments,
        "warning: no place for arguments",
    ),
    "a thread": (let_a_thread_die, "error: unhandled error in a thread"),
    "a finalizer": (fail_while_ending, "error: unhandled error at exit"),
    "the interpreter": (raise_outside_of_every_command, "error: unhandled error"),
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("way", WAYS)
def test_messages_of_libraries_are_printed_without_secrets_and_as_plain_text(
    way, hostile, screen, capfd
):
    remember(PLANTED)
    say, head = WAYS[way]
    say(HOSTILE[hostile])
    assert head in screen.words
    assert "refused: " in screen.words
    assert "pl4nted" not in screen.words
    assert "##[" not in screen.words
    assert "section_start:" not in screen.words
    assert not any(line.lstrip().startswith("::") for line in screen.words.splitlines())
    assert all(sign == "\n" or sign.isprintable() for sign in screen.words)
    assert screen.words.isascii()
    assert screen.facts == ""
    assert capfd.readouterr() == ("", "")


def test_a_printed_traceback_names_its_origin(screen):
    let_a_thread_die("refused")
    assert "test_diagnostics.py" in screen.words
    assert screen.words.endswith("OSError: refused\n")


def test_a_thread_that_raises_system_exit_is_not_an_error(screen):
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()
    assert screen.words == ""


def test_hooks_do_not_fail_with_a_closed_standard_error(screen, capfd):
    screen.err.close()
    for say, _ in WAYS.values():
        say("refused")
    assert capfd.readouterr() == ("", "")


def test_debug_and_info_messages_of_libraries_are_hidden(screen):
    LOG.info("much")
    assert screen.words == ""
    assert isinstance(logging.lastResort, DiagnosticsHandler)


def test_the_program_connects_every_hook_to_its_console(screen, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["kquota", "--version"])
    threshold = gc.get_threshold()
    try:
        assert main() == 0
    finally:
        gc.set_threshold(*threshold)
    remember(PLANTED)
    for say, _ in WAYS.values():
        say(f"{PLANTED}\x1b[31m")
    words = capfd.readouterr().err
    assert screen.words == ""
    assert all(head in words for _, head in WAYS.values())
    assert "\x1b" not in words
    assert PLANTED not in words
