"""The project's small Go programs, built once like the servers: JSON on stdin, JSON on stdout."""

import json
import subprocess
from typing import Any

from tests.servers.kube import programs
from tests.servers.processes import HANG_SECONDS

KSTATUS = programs.GoModule(
    name="kstatus", folder=programs.HERE / "go" / "kstatus", packages=(".",)
)
LUAHEALTH = programs.GoModule(
    name="luahealth", folder=programs.HERE / "go" / "luahealth", packages=(".",)
)


class GoToolFailed(Exception):
    """The program exited with a code other than 0; the message has its stderr."""


def ask(tool: programs.GoModule, question: object) -> Any:
    """Run the program `tool`, built on first use; return its output.

    Raises:
        GoToolFailed: It refuses the input.
        ServersUnavailable: It cannot be built on this machine.
    """
    program = programs.go_programs(tool) / tool.name
    answer = subprocess.run(
        [str(program)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    if answer.returncode != 0:
        raise GoToolFailed(answer.stderr.strip())
    return json.loads(answer.stdout)
