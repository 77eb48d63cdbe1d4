"""The operator in the environment of a pod: token, authority and address of the API server. No kubeconfig, no DNS."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.e2e.world import KQUOTA, World, eventually
from tests.servers.kube.as_pod import as_pod
from tests.servers.ports import free_ports
from tests.servers.processes import Child

pytestmark = pytest.mark.integration

MIB = 1048576.0


@pytest.fixture
def pod(world: World, tmp_path: Path) -> Iterator[Child]:
    """A running operator with the chart's account, arguments and variables."""
    place = world.place
    before, environment = as_pod(
        world.kube, tmp_path, namespace=place.namespace, account=place.account
    )
    child = Child(
        [
            *before,
            "env",
            "-u",
            "KUBECONFIG",
            str(KQUOTA),
            *(
                argument
                for argument in place.arguments
                if not argument.startswith("--metrics-address")
            ),
            f"--metrics-address=127.0.0.1:{free_ports(1)[0]}",
        ],
        log=tmp_path / "pod.log",
        environment={**environment, "POD_NAME": "pod-1", "POD_NAMESPACE": place.namespace},
    )
    yield child
    child.kill()


def test_the_rights_of_a_service_account_in_a_pod_suffice_to_list_and_watch(
    world: World, pod: Child
) -> None:
    assert "KUBERNETES_SERVICE_HOST" not in os.environ
    # The next resync is later: everything noticed came from the watch.
    world.cluster(interval="10m")
    world.quota("early")
    world.becomes("early", "Synced")
    world.quota("late")
    world.becomes("late", "Synced")
    world.quota("early", limits={"producerByteRate": "2Mi"})
    world.becomes("early", "Synced")
    assert world.live()["early"] == {"producer_byte_rate": 2 * MIB}
    eventually(lambda: "leading as pod-1" in pod.log_text())
    assert "error" not in pod.log_text()
