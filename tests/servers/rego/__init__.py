"""conftest, which checks JSON against Rego policies: built once from a pinned Go module."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.servers.kube import programs
from tests.servers.processes import HANG_SECONDS

CONFTEST = programs.GoModule(
    name="conftest",
    folder=Path(__file__).parent,
    packages=("github.com/open-policy-agent/conftest",),
)


def verdicts(policy: Path, document: str) -> dict[str, list[str]]:
    """Check a JSON document against the policies of a folder; return ``failures`` and ``warnings``, sorted.

    Raises:
        ServersUnavailable: Conftest cannot be built here.
    """
    program = programs.go_programs(CONFTEST) / "conftest"
    words = [
        str(program),
        "test",
        "--policy",
        str(policy),
        "--parser",
        "json",
        "--output",
        "json",
        "--no-color",
        "-",
    ]
    answer = subprocess.run(
        words, input=document, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert answer.returncode in {0, 1}, answer.stderr
    (answer_document,) = _json(answer)
    return {
        kind: sorted(failure["msg"] for failure in answer_document.get(kind, ()))
        for kind in ("failures", "warnings")
    }


def _json(answer: "subprocess.CompletedProcess[str]") -> Any:
    try:
        return json.loads(answer.stdout)
    except ValueError as error:
        raise AssertionError(f"conftest printed {answer.stdout!r} {answer.stderr!r}") from error
