"""The main file for spark-submit: ``JOB --lake URI …``, as for ``kquota usage``, and ``--output FILE`` for the result.

The result is JSON unless ``--format`` is given. The exit code is 0, or 1 for an error: only ``kquota usage`` judges policies.
"""

import argparse
import contextlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from reconciler.base.text_files import check_place, write_text
from reconciler.cli.framework.commands import ExitCode, run_mapped
from reconciler.cli.framework.console import Console
from reconciler.cli.main import main as kquota
from reconciler.errors import UsageError


def main(words: Sequence[str]) -> int:
    """Run one job and return its exit code."""
    code = run_mapped(Console.of_process(), lambda: _run(words))
    return code if code in (ExitCode.ERROR, ExitCode.INTERRUPTED) else ExitCode.DONE


def _run(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--format", default="json")
    try:
        options, job = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from error
    if job and "--help" not in job:
        job += ["--format", options.format]
    if options.output is None:
        return kquota(["usage", *job])
    check_place(options.output)
    result = io.StringIO()
    with contextlib.redirect_stdout(result):
        code = kquota(["usage", *job])
    if result.getvalue():
        write_text(options.output, result.getvalue(), private=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
