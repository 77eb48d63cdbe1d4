"""Small Go programs of ours, built once like the servers: one JSON question, one JSON answer."""

import json
import subprocess
from typing import Any

from tests.servers.kube import programs

ANSWER_SECONDS = 60.0
KSTATUS = programs.GoModule(
    name="kstatus", folder=programs.HERE / "go" / "kstatus", packages=(".",)
)
LUAHEALTH = programs.GoModule(
    name="luahealth", folder=programs.HERE / "go" / "luahealth", packages=(".",)
)


class GoToolFailed(Exception):
    """The program ended with another exit code than 0; carries what it said on stderr."""


def ask(tool: programs.GoModule, question: object) -> Any:
    """What the program `tool`, built on first use, answers.

    Raises:
        GoToolFailed: it refuses the question.
        ServersUnavailable: it cannot be built here.
    """
    program = programs.go_programs(tool) / tool.name
    answer = subprocess.run(
        [str(program)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
        timeout=ANSWER_SECONDS,
    )
    if answer.returncode != 0:
        raise GoToolFailed(answer.stderr.strip())
    return json.loads(answer.stdout)
