"""The rendered chart: the table of values files, `helm template`, `helm lint`, parsed manifests. No cluster."""

import functools
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.servers.kube import programs
from tests.servers.processes import HANG_SECONDS

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "kafka-quota-reconciler"
VALUES = {path.stem: path for path in sorted((Path(__file__).parent / "values").glob("*.yaml"))}
RELEASE = "quotas"
NAMESPACE = "kqr-operator"

Manifest = dict[str, Any]


def helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run helm without a cluster, with any exit code."""
    return subprocess.run(
        [str(programs.helm()), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        env={"HOME": "/nonexistent", "HELM_NO_PLUGINS": "1"},
    )


@functools.cache
def template(*arguments: str, namespace: str = NAMESPACE) -> "subprocess.CompletedProcess[str]":
    """`helm template` of the chart, cached by its arguments."""
    return helm("template", RELEASE, str(CHART), "--namespace", namespace, *arguments)


def manifests(text: str) -> list[Manifest]:
    """The objects of a rendered text; libyaml reads it ten times as fast as pure Python."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def rendered(*arguments: str, namespace: str = NAMESPACE) -> list[Manifest]:
    """The objects of the chart with these arguments; a failure shows helm's message."""
    answer = template(*arguments, namespace=namespace)
    assert answer.returncode == 0, answer.stderr
    return manifests(answer.stdout)


def with_values(name: str, *arguments: str) -> list[Manifest]:
    """The objects of one of the values files."""
    return rendered("--values", str(VALUES[name]), *arguments)


def of_kind(objects: Sequence[Manifest], kind: str) -> list[Manifest]:
    """Objects of one kind."""
    return [manifest for manifest in objects if manifest["kind"] == kind]


def only(objects: Sequence[Manifest], kind: str) -> Manifest:
    """The one object of a kind."""
    (manifest,) = of_kind(objects, kind)
    return manifest


def container(objects: Sequence[Manifest]) -> Mapping[str, Any]:
    """The operator's container."""
    (container_spec,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return container_spec


def is_hook(manifest: Manifest) -> bool:
    """Whether the object is a helm hook."""
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})
