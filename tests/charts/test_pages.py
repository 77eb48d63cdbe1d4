"""The pages about Kubernetes are followed literally, in one go, on a real API server: install, back up, restore, uninstall.

Blocks after `<!-- tested on kubernetes -->` are run. Those after `<!-- tested with the operator -->` need a running operator
and a broker; `commands(page, with_operator=True)` gives them too, for the suite that has both.
"""

import doctest
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.pages import DOCS, PAGES, commands
from tests.charts.rendering import CHART
from tests.servers.kube import programs
from tests.servers.kube.cluster import KubeCluster

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECONDS = 120


@pytest.fixture
def fresh_kube() -> Iterator[KubeCluster]:
    with KubeCluster() as cluster, cluster.pods_become_ready():
        yield cluster


@pytest.mark.integration
def test_the_pages_do_what_they_say(fresh_kube: KubeCluster, tmp_path: Path) -> None:
    environment = {
        "PATH": f"{programs.kubectl().parent}:{programs.helm().parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(fresh_kube.kubeconfig),
        "CHART": str(CHART),
        "BOOTSTRAP": "broker-1:9093",
    }
    for page in ("install-kubernetes.md", "backup-and-restore.md", "uninstall.md"):
        for step in commands(page):
            answer = subprocess.run(
                ["bash", "-c", step.command], cwd=tmp_path, env=environment, text=True, timeout=SECONDS, check=False,
                capture_output=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            said = f"{page}: $ {step.command}\n{answer.stdout}\n{answer.stderr}"
            assert answer.returncode == 0, said
            assert doctest.OutputChecker().check_output(step.output, answer.stdout, FLAGS), said


def test_every_page_of_the_table_has_commands() -> None:
    assert all(commands(page) for page in PAGES)
    assert len(commands("install-kubernetes.md", with_operator=True)) > len(
        commands("install-kubernetes.md")
    )


def test_a_here_document_is_one_command() -> None:
    made = [step.command for step in commands("install-kubernetes.md") if "<<END" in step.command]
    assert len(made) == 2
    assert made[0].startswith(
        "kubectl apply -f - <<END\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaCluster\n"
    )
    assert made[0].endswith("\nEND")


VALUE = re.compile(
    r"`(?:--set )?((?:watch|rbac|crds|metrics|webhook|releaseHook|operator|podDisruptionBudget|admissionPolicies)"
    r"(?:\.[a-zA-Z]+)+)"
)


def exists(name: str) -> bool:
    """Whether there is such a value, or a table of the user's own in which it would stand."""
    inner: Any = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    for part in name.split("."):
        if inner == {}:
            return True
        if part not in inner:
            return False
        inner = inner[part]
    return True


@pytest.mark.parametrize("page", [*PAGES, "argo-and-flux.md"])
def test_the_values_that_a_page_names_exist(page: str) -> None:
    named = set(VALUE.findall((DOCS / page).read_text(encoding="utf-8")))
    assert [name for name in named if not exists(name)] == []
