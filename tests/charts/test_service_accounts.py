"""The chart's service accounts can do their work: the arguments of its pods, run with the rights of the chart."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.charts.chart_renderer import Manifest, only, with_values
from tests.charts.release import FULLNAME, Placed, list_text, placed
from tests.servers.kube.cluster import KubeCluster
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

KQUOTA = Path(sys.executable).parent / "kquota"
FINALIZER = "kafka-quotas.io/release"


def arguments(objects: Sequence[Manifest], kind: str) -> list[str]:
    """The arguments of the container of the chart's Job or test pod."""
    spec: Any = only(objects, kind)["spec"]
    (container,) = (spec.get("template", {}).get("spec") or spec)["containers"]
    return list(container["args"])


def typed(
    release: Placed, account: str, words: Sequence[str]
) -> "subprocess.CompletedProcess[str]":
    """Run `kquota` as a service account of the release."""
    kubeconfig = release.kube.kubeconfig_for(release.home, account)
    return subprocess.run(
        [str(KQUOTA), *words, f"--kubeconfig={kubeconfig}", "--format=json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
        env={"PATH": os.environ["PATH"], "HOME": str(release.kube.folder), "NO_COLOR": "1"},
    )


def retained_document(release: Placed, name: str) -> str:
    """A document with the finalizer of kquota, which delays its deletion; returns its name."""
    quota = {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": {"name": name, "namespace": release.watched, "finalizers": [FINALIZER]},
        "spec": {
            "clusterRef": {"name": "prod"},
            "entity": {"user": {"name": name}},
            "limits": {"producerByteRate": "1Mi"},
        },
    }
    release.kube.kubectl("create", "-f", "-", input=json.dumps(quota))
    return name


def bound(release: Placed, user: str) -> None:
    release.kube.wait_until(
        lambda: release.may(
            user, "release", "kafka-quotas.io/clientquotas", namespace=release.watched
        ),
        "bind the roles",
        seconds=240,
    )


@pytest.mark.parametrize("narrow", [False, True], ids=["all", "list"])
def test_the_release_job_stops_the_operator_and_releases_every_document(
    narrow: bool, chart_kube: KubeCluster
) -> None:
    with (
        chart_kube.pods_become_ready(),
        placed(chart_kube, narrow=narrow, with_pods=True) as release,
    ):
        inside = ("-n", release.watched)
        name = retained_document(release, "alice")
        chart_kube.kubectl("delete", "clientquota", name, "--wait=false", *inside)
        assert chart_kube.kubectl("get", "clientquotas", *inside, "-o", "name").stdout != ""
        deployment = only(release.objects, "Deployment")
        chart_kube.kubectl("apply", "-f", "-", input=list_text([deployment]))
        chart_kube.kubectl(
            "-n", release.home, "rollout", "status", f"deployment/{FULLNAME}", "--timeout=240s"
        )
        bound(release, release.releaser)

        answer = typed(release, f"{FULLNAME}-release", arguments(release.objects, "Job"))
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert chart_kube.kubectl("get", "clientquotas", *inside, "-o", "name").stdout == ""
        assert chart_kube.kubectl("-n", release.home, "get", "pods", "-o", "name").stdout == ""


def test_the_operator_accepts_every_argument_of_the_chart() -> None:
    answer = subprocess.run(
        [str(KQUOTA), "operator", "--help"], capture_output=True, text=True, check=True
    )
    stdout = answer.stdout
    for name in ("operator-flags", "namespaced-only", "webhook-cert-manager", "no-leader-election"):
        deployment = only(with_values(name), "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        flags = [word.partition("=")[0] for word in container["args"] if word.startswith("--")]
        assert [flag for flag in flags if flag not in stdout] == []
