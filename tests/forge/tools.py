"""Programs and descriptions that the forge tests need: act and actionlint from Go modules, GitHub's API description from npm.

All are pinned (go.sum; a hash of the package) and kept in the cache of `tests/servers/jars.py` by content.
"""

import functools
import hashlib
import json
import os
import subprocess
import tarfile
from pathlib import Path

from tests.servers.jars import ServersUnavailable, cached, digest, program
from tests.servers.processes import HANG_SECONDS

GO = Path(__file__).parent / "go"
PROGRAMS = {
    "act": "github.com/nektos/act",
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
}
BUILD_SECONDS = 1800

OPENAPI_VERSION = "23.0.2"
OPENAPI_SHA256 = "71a18407dd5e8464f4e0525daf03deabbe65abd9287d6adc7b5d98f516cd0d0c"
DESCRIPTION = "package/generated/api.github.com.json"


def go_program(name: str) -> Path:
    """`act` or `actionlint`, built on first use (half a minute with a warm module cache).

    Raises:
        ServersUnavailable: Go is missing, or its modules cannot be downloaded.
    """
    pins = (GO / "go.mod").read_text() + (GO / "go.sum").read_text()
    folder = cached(f"forge-tools-{digest(pins)}", _build)
    return folder / name


def _build(folder: Path) -> None:
    go = program("go", "Go 1.26 or newer")
    command = [go, "build", "-mod=readonly", "-trimpath", "-o", f"{folder}/", *PROGRAMS.values()]
    environment = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    try:
        done = subprocess.run(
            command,
            cwd=GO,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired as late:
        raise ServersUnavailable(f"Go did not build act within {BUILD_SECONDS} s.") from late
    if done.returncode != 0:
        raise ServersUnavailable(f"Go could not build act: {done.stderr.strip()[-300:]}")


@functools.cache
def description() -> dict:
    """GitHub's own OpenAPI description of its REST API.

    Raises:
        ServersUnavailable: Npm's registry cannot be reached, or the digest differs.
    """
    folder = cached(f"octokit-openapi-{OPENAPI_VERSION}-{OPENAPI_SHA256[:16]}", _download)
    return json.loads((folder / "api.github.com.json").read_text(encoding="utf-8"))


def _download(folder: Path) -> None:
    package = f"@octokit/openapi@{OPENAPI_VERSION}"
    npm = program("npm", "Node's npm")
    process = subprocess.run(
        [npm, "pack", package, "--silent", "--pack-destination", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=HANG_SECONDS,
    )
    packed = next(folder.glob("*.tgz"), None)
    if process.returncode != 0 or packed is None:
        raise ServersUnavailable(f"npm could not fetch {package}: {process.stderr.strip()[-300:]}")
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    if digest != OPENAPI_SHA256:
        raise ServersUnavailable(f"{package} has the hash {digest}, not the pinned one")
    with tarfile.open(packed) as archive:
        member = archive.extractfile(DESCRIPTION)
        assert member is not None
        (folder / "api.github.com.json").write_bytes(member.read())
    packed.unlink()
