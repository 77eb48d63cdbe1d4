"""Overrides for an operator: an exit code of 0 means that the broker has the value."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kube.e2e.world import World, eventually
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration


def run(world: World, kubeconfig: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    place = ("--operator-namespace", world.place.namespace, "--kubeconfig", str(kubeconfig))
    words = ("override", *words, "--yes", "--kubernetes", "--cluster", "prod", *place)
    command = [sys.executable, "-m", "reconciler", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )


def limited_account(world: World) -> Path:
    """The kubeconfig of an account that may write the records and not request a reconciliation."""
    kubectl, namespace = world.kube.kubectl, world.place.namespace
    account = ("--role=limited", f"--serviceaccount={namespace}:limited")
    kubectl("-n", namespace, "create", "serviceaccount", "limited")
    verbs = "--verb=get,list,create,update,patch"
    kubectl("-n", namespace, "create", "role", "limited", verbs, "--resource=configmaps")
    kubectl("-n", namespace, "create", "rolebinding", "limited", *account)
    resource = "--resource=quotaclusters.kafka-quotas.io"
    kubectl("create", "clusterrole", "limited", "--verb=get,list", resource)
    account = ("--clusterrole=limited", account[1])
    kubectl("create", "clusterrolebinding", "limited", *account)
    return world.kube.kubeconfig_for(namespace, "limited")


def test_an_override_is_live_when_its_command_ends_with_0_and_not_confirmed_with_1(
    world: World,
) -> None:
    world.cluster()
    world.start()
    world.quota("alice", limits={"producerByteRate": "10Mi"})
    world.becomes("alice", "Synced")
    words = ("--for", "1h", "--reason", "x")
    admin = world.kube.kubeconfig
    done = run(world, admin, "user=alice", "producer_byte_rate=50Mi", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert world.live() == {"alice": {"producer_byte_rate": 52428800.0}}
    done = run(world, admin, "end", "user=alice")
    assert (done.returncode, done.stderr) == (0, "")
    assert world.live() == {"alice": {"producer_byte_rate": 10485760.0}}

    limited = limited_account(world)
    done = run(world, limited, "user=alice", "producer_byte_rate=20Mi", *words)
    assert done.returncode == 1
    assert "recorded, but a reconciliation could not be requested" in done.stderr
    live = {"alice": {"producer_byte_rate": 20971520.0}}
    eventually(lambda: world.live() == live, what="the next reconciliation to begin it")
