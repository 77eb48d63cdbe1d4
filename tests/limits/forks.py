"""Runs a function many times, each in a separate process that is forked after the imports.

Each line of standard input is a run: a JSON object with the arguments of the function, the working folder, the files
for the output of the run, and its CPU seconds. The response is a line with its end and its use. The kernel counts
the peak of a fork from its parent's memory at the fork, so runs do not affect one another.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from tests.limits.measure import limit, used


def serve(program: Callable[..., None]) -> None:
    """Run the program once for each line of standard input; a fork returns at the end of its run."""
    for line in sys.stdin:
        run = json.loads(line)
        child = os.fork()
        if not child:
            become(run)
            program(*run["arguments"])
            return
        _, status, usage = os.wait4(child, 0)
        sys.stdout.write(json.dumps(used(status, usage)) + "\n")
        sys.stdout.flush()


def become(run: dict[str, Any]) -> None:
    """Set the limits, the folder and the files of a run for this process."""
    limit(run["cpu_seconds"])
    os.chdir(run["cwd"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(run[name], os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
