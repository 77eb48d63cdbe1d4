"""Runs the commands of the Kubernetes documentation on a real API server: install, back up, restore, uninstall.

Blocks after `<!-- tested on kubernetes -->` are run. Those after `<!-- tested with the operator -->` need a running
operator and a broker; `commands(page, with_operator=True)` returns them too, for the tests that have both.
"""

import contextlib
import doctest
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.chart_renderer import CHART
from tests.charts.pages import DOCS, PAGES, Step, commands
from tests.servers import raw_quotas
from tests.servers.jars import NEWEST
from tests.servers.kafka import StartKafka
from tests.servers.kube import programs
from tests.servers.kube.cluster import KubeCluster
from tests.servers.ports import free_ports
from tests.servers.processes import HANG_SECONDS, Child
from tests.servers.tools import kafka_configs

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
KQUOTA = Path(sys.executable).parent / "kquota"
RELEASE = "kafka-quota-reconciler"
NAMESPACE = "kafka-quotas"


@pytest.fixture
def fresh_kube() -> Iterator[KubeCluster]:
    with KubeCluster() as cluster, cluster.pods_become_ready():
        yield cluster


def followed(step: Step, kube: KubeCluster, folder: Path, bootstrap: str) -> None:
    """Run one command of a page and compare its output."""
    environment = {
        "PATH": f"{programs.kubectl().parent}:{programs.helm().parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "KUBECONFIG": str(kube.kubeconfig),
        "CHART": str(CHART),
        "IMAGE": "registry.example.org/kafka-quota-reconciler",
        "DIGEST": f"sha256:{'0' * 64}",
        "BOOTSTRAP": bootstrap,
    }
    answer = subprocess.run(
        ["bash", "-c", step.command],
        cwd=folder,
        env=environment,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    text = f"$ {step.command}\n{answer.stdout}\n{answer.stderr}"
    assert answer.returncode == 0, text
    assert doctest.OutputChecker().check_output(step.output, answer.stdout, FLAGS), text


@pytest.mark.integration
def test_the_commands_of_the_pages_work(fresh_kube: KubeCluster, tmp_path: Path) -> None:
    for page in PAGES:
        for step in commands(page):
            followed(step, fresh_kube, tmp_path, "broker-1:9093")


@contextlib.contextmanager
def operator(kube: KubeCluster, folder: Path) -> Iterator[Child]:
    """The command of the release's pod, with its arguments and its account's token."""
    text = kube.kubectl("-n", NAMESPACE, "get", "deployment", RELEASE, "-o", "json").stdout
    spec = json.loads(text)["spec"]["template"]["spec"]
    arguments = [
        argument
        for argument in spec["containers"][0]["args"]
        if not argument.startswith("--metrics-address")
    ]
    kubeconfig = kube.kubeconfig_for(NAMESPACE, spec["serviceAccountName"])
    (port,) = free_ports(1)
    child = Child(
        [
            str(KQUOTA),
            *arguments,
            f"--metrics-address=127.0.0.1:{port}",
            f"--kubeconfig={kubeconfig}",
        ],
        log=folder / "operator.log",
        environment={"POD_NAME": "page", "POD_NAMESPACE": NAMESPACE},
    )
    try:
        yield child
    finally:
        child.kill()


@pytest.mark.integration
def test_the_page_about_installing_ends_with_a_limit_in_effect(
    fresh_kube: KubeCluster, kafka: StartKafka, tmp_path: Path
) -> None:
    cluster = kafka(NEWEST)
    raw_quotas.clear(cluster.port())
    with contextlib.ExitStack() as stack:
        for step in commands("install-kubernetes.md", with_operator=True):
            try:
                followed(step, fresh_kube, tmp_path, cluster.bootstrap())
            except AssertionError as failed:
                log = tmp_path / "operator.log"
                failed.add_note(
                    log.read_text(encoding="utf-8")[-4000:] if log.exists() else "no operator yet"
                )
                raise
            if step.command.startswith("helm install"):
                stack.enter_context(operator(fresh_kube, tmp_path))
    process = kafka_configs(
        NEWEST,
        "--bootstrap-server",
        cluster.bootstrap(),
        "--describe",
        "--entity-type",
        "users",
        "--entity-name",
        "alice",
    )
    assert "producer_byte_rate=1.048576E7" in process.stdout


def test_every_page_of_the_table_has_commands() -> None:
    assert all(commands(page) for page in PAGES)
    assert len(commands("install-kubernetes.md", with_operator=True)) > len(
        commands("install-kubernetes.md")
    )


def test_a_here_document_is_one_command() -> None:
    new_commands = [
        step.command for step in commands("install-kubernetes.md") if "<<END" in step.command
    ]
    assert len(new_commands) == 2
    assert new_commands[0].startswith(
        "kubectl apply -f - <<END\napiVersion: kafka-quotas.io/v1alpha1\nkind: QuotaCluster\n"
    )
    assert new_commands[0].endswith("\nEND")


VALUE = re.compile(
    r"`(?:--set )?((?:watch|rbac|crds|metrics|webhook|releaseHook|operator|podDisruptionBudget|admissionPolicies)"
    r"(?:\.[a-zA-Z]+)+)"
)


def exists(name: str) -> bool:
    """Whether the value exists, or belongs to a table with user-defined keys."""
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
