"""Wheels for `pip install` without the package index: for each extra a folder, compared with the hashes of its lock."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers import jars
from tests.servers.jars import ServersUnavailable
from tests.servers.processes import ScratchFolder

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / ".ci" / "locks"
BUILD_SECONDS = 1200


def build_tools() -> Path:
    """The Python of a virtual environment with the locked build tools, or raise ServersUnavailable."""
    return jars.cached(f"build-tools-{_digest('build')}", _fill_tools) / "bin" / "python"


def wheel_folder(extra: str) -> Path:
    """A folder with the wheels of the locks `base`, `build` and `extra`; of the first two for the extra "".

    Raises:
        ServersUnavailable: A download fails or has another hash.
    """
    locks = ("base", "build", *((extra,) if extra else ()))

    def fill(folder: Path) -> None:
        words = ["wheel", "--require-hashes", "--no-build-isolation", "--wheel-dir", str(folder)]
        for lock in locks:
            words += ["--requirement", str(LOCKS / f"{lock}.txt")]
        _pip(build_tools(), *words)

    return jars.cached(f"wheels-{extra or 'base'}-{_digest(*locks)}", fill)


def offline(folder: Path) -> Mapping[str, str]:
    """Variables with which pip uses no index, takes packages from a folder, and does not compile bytecode."""
    return {
        "PIP_NO_COMPILE": "0",  # this option is inverted: 1 compiles
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _digest(*locks: str) -> str:
    texts = [(LOCKS / f"{lock}.txt").read_text(encoding="utf-8") for lock in locks]
    return jars.digest(sys.version, *texts)


def _fill_tools(folder: Path) -> None:
    subprocess.run([sys.executable, "-I", "-m", "venv", str(folder)], check=True)
    lock = LOCKS / "build.txt"
    _pip(folder / "bin" / "python", "install", "--require-hashes", "--requirement", str(lock))


def _pip(python: Path, *words: str) -> None:
    with ScratchFolder.make("pip-") as scratch:
        answer = subprocess.run(
            [str(python), "-I", "-m", "pip", *words, "--quiet", "--disable-pip-version-check"],
            cwd=scratch,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_SECONDS,
            env=os.environ,
        )
    if answer.returncode != 0:
        raise ServersUnavailable(f"pip {words[0]} failed: {answer.stderr[-400:]}")
