"""Tests of `python -m tests.servers.kube`, which runs a cluster until its stdin closes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.integration
def test_one_line_tells_how_to_reach_it_and_nothing_stays_behind() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.kube"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        answer = subprocess.run(
            [document["kubectl"], "get", "crds", "-o", "name"],
            env={
                "KUBECONFIG": document["kubeconfig"],
                "HOME": str(Path(document["kubeconfig"]).parent),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        process.communicate(timeout=60)
    assert "clientquotas.kafka-quotas.io" in answer.stdout, answer.stderr
    assert process.returncode == 0
    assert not Path(document["kubeconfig"]).exists()
