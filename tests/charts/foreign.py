"""CRDs of other projects that objects of the chart need: taken from Go modules, pinned by `foreign.sum`.

A line of that file has the format of go.sum: module, version, hash of the module's content. Go compares downloads with
its public database of hashes; this module compares them with the file.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.servers import jars
from tests.servers.jars import ServersUnavailable
from tests.servers.processes import HANG_SECONDS

SUMS = Path(__file__).with_name("foreign.sum")
FILES = {
    "github.com/prometheus-operator/prometheus-operator": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
    "github.com/cert-manager/cert-manager": (
        "deploy/crds/cert-manager.io_certificates.yaml",
        "deploy/crds/cert-manager.io_issuers.yaml",
    ),
}


def pins() -> dict[str, tuple[str, str]]:
    """Version and hash of each module."""
    lines = (line.split() for line in SUMS.read_text(encoding="utf-8").splitlines())
    return {module: (version, content) for module, version, content in lines}


def definitions() -> Path:
    """The folder with all of `FILES`, downloaded on first use.

    Raises:
        ServersUnavailable: Go is missing, a module cannot be downloaded, or its hash differs.
    """
    name = f"foreign-crds-{jars.digest(SUMS.read_text(encoding='utf-8'), repr(FILES))}"
    return jars.cached(name, _fill)


def _fill(folder: Path) -> None:
    for module, (version, content) in pins().items():
        module_info = _download(f"{module}@{version}")
        if module_info["Sum"] != content:
            raise ServersUnavailable(f"{module} {version} is {module_info['Sum']}, not {content}")
        for file in FILES[module]:
            shutil.copyfile(Path(module_info["Dir"]) / file, folder / Path(file).name)


def _download(module: str) -> dict[str, str]:
    go = jars.program("go", "Go 1.26")
    answer = subprocess.run(
        [go, "mod", "download", "-json", module],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        cwd="/",
        env={**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off"},
    )
    if answer.returncode != 0:
        raise ServersUnavailable(f"Go could not download {module}: {answer.stdout[-300:]}")
    module_info: dict[str, str] = json.loads(answer.stdout)
    return module_info
