"""Log records of a serving process: one line each, and names cannot forge lines."""

import logging

from reconciler.cli.framework.logs import OneLineFormatter


def record(message: str, *arguments: object, level: int = logging.WARNING, error=None):
    trace = (type(error), error, None) if error is not None else None
    new_record = logging.LogRecord("reconciler.x", level, "x.py", 1, message, arguments, trace)
    new_record.created = 1_700_000_000.0
    return new_record


def test_a_log_record_has_time_level_and_message():
    assert OneLineFormatter(journal=False).format(record("prod: %d applied", 3)) == (
        "2023-11-14T22:13:20Z WARNING prod: 3 applied"
    )


def test_lines_for_the_journal_have_a_level_and_no_time():
    line = OneLineFormatter(journal=True)
    assert line.format(record("x", level=logging.ERROR)) == "<3>x"
    assert line.format(record("x", level=logging.INFO)) == "<6>x"
    assert line.format(record("x", level=35)) == "<5>x"


def test_a_log_record_cannot_forge_a_line_or_a_colour_and_a_traceback_is_one_line():
    error = ValueError("first\nsecond\x1b[31m")
    line = OneLineFormatter(journal=False).format(record("a\nb", error=error))
    assert "\n" not in line
    assert "\x1b" not in line
    assert "ValueError" in line
    assert "first" in line
