"""Validation of Argo CD's and Flux's objects by types of their published API: npm packages, pinned by a lock file."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.servers import jars
from tests.servers.jars import ServersUnavailable
from tests.servers.processes import HANG_SECONDS

SOURCES = Path(__file__).parent / "gitops"
FILES = ("package.json", "package-lock.json", "judge.mjs")
NEEDED = "Node.js with npm (for example the packages nodejs and npm)"


def errors(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """Errors in objects of Argo CD or Flux, as sentences.

    Raises:
        ServersUnavailable: npm is missing or cannot download.
    """
    texts = [(SOURCES / name).read_text(encoding="utf-8") for name in FILES]
    folder = jars.cached(f"gitops-types-{jars.digest(*texts)}", _install)
    answer = subprocess.run(
        [jars.program("node", NEEDED), "judge.mjs"],
        cwd=folder,
        input=json.dumps(objects),
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    sentences: list[str] = json.loads(answer.stdout)
    return sentences


def _install(folder: Path) -> None:
    for name in FILES:
        shutil.copy(SOURCES / name, folder)
    answer = subprocess.run(
        [
            jars.program("npm", NEEDED),
            "ci",
            "--silent",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    if answer.returncode != 0:
        raise ServersUnavailable(f"npm could not install the types: {answer.stderr[-300:]}")
