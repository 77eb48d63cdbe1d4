"""Whole operators on a real API server and the sandbox: 5,000 resources to Ready, against Kopf's tutorial handlers."""

import contextlib
import os
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.bench.harness import say
from tests.servers.jars import ServersUnavailable
from tests.servers.kube.as_pod import as_pod
from tests.servers.kube.cluster import KubeCluster
from tests.servers.kube.counts import Request
from tests.servers.ports import free_ports
from tests.servers.processes import Child, ScratchFolder

RESOURCES = 5000
STATUSES = 5020
ROUNDS = 2
SECONDS = 3600.0
PACE = 0.25
KQUOTA = Path(sys.executable).with_name("kquota")
TUTORIAL = Path(__file__).with_name("tutorial_operator.py")
GROUP = "/apis/kafka-quotas.io/v1alpha1"
APART = {"leases", "tokenreviews", "serviceaccounts", "subjectaccessreviews"}

IMAGE = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072"}
"""As in the image."""

ADMINISTRATOR = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "bench"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    },
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
}
"""Full rights, because the tests of the chart cover rights."""

Take = Callable[[], Mapping[str, float]]


@dataclass(slots=True)
class Bench:
    """A Kubernetes with the CRDs."""

    kube: KubeCluster
    folder: Path
    turn: int = 0

    # ---- the world of one sample -------------------------------------------------------------

    @contextmanager
    def broker(self) -> Iterator[str]:
        """Start a sandbox as a separate process; return its bootstrap servers."""
        port = free_ports(1)[0]
        log = self.folder / f"sandbox-{self.turn}.log"
        child = Child([str(KQUOTA), "sandbox", f"--port={port}"], log=log)
        try:
            until(lambda: "127.0.0.1" in log.read_text(encoding="utf-8"), "the sandbox")
            yield f"127.0.0.1:{port}"
        finally:
            child.kill()

    @contextmanager
    def resources(self, bootstrap: str) -> Iterator[str]:
        """A namespace with all resources and a QuotaCluster; deleted at the end."""
        self.turn += 1
        self.kube.apply(
            {
                "apiVersion": "kafka-quotas.io/v1alpha1",
                "kind": "QuotaCluster",
                "metadata": {"name": "bench"},
                "spec": {"bootstrapServers": bootstrap},
            }
        )
        namespace = self.kube.fresh_namespace()
        path = f"{GROUP}/namespaces/{namespace}/clientquotas"
        for number in range(RESOURCES):
            self.kube.api.call("POST", path, document(number)).need()
        try:
            yield namespace
        finally:
            until(lambda: self.delete_all(path), "the resources to be gone")
            self.kube.kubectl("delete", "quotacluster", "bench")
            self.kube.kubectl("delete", "lease", "--all", "-n", "default")
            self.kube.kubectl(
                "delete",
                "configmap",
                "--field-selector=metadata.name!=kube-root-ca.crt",
                "--all",
                "-n",
                "default",
                check=False,
            )

    def delete_all(self, path: str) -> bool:
        """Delete all objects of a collection; return whether none is left: the API server may end a deletion early."""
        answer = self.kube.api.call("DELETE", path)
        if answer.status != HTTPStatus.GATEWAY_TIMEOUT:
            answer.need()
        return not self.kube.api.get(f"{path}?limit=1").need()["items"]

    def writes(self) -> Counter[Request]:
        """All writes that the API server has answered, except Leases and its own."""
        return Counter(
            {
                request: count
                for request, count in self.kube.metrics().items()
                if request.writes and request.resource not in APART
            }
        )

    def ready(self, namespace: str) -> int:
        """How many resources are Ready at their current generation, page by page."""
        count, token = 0, ""
        while True:
            query = {"limit": "500"} | ({"continue": token} if token else {})
            page = self.kube.api.call(
                "GET", f"{GROUP}/namespaces/{namespace}/clientquotas", query=query
            ).need()
            count += sum(is_ready(item) for item in page["items"])
            token = page["metadata"].get("continue", "")
            if not token:
                return count

    # ---- samples -----------------------------------------------------------------------------

    def sample(self, start: Callable[[str], Child]) -> dict[str, float]:
        """Measure from the start of a process until all resources are Ready."""
        with self.broker() as bootstrap, self.resources(bootstrap) as namespace:
            before = self.writes()
            began = time.perf_counter()
            child = start(bootstrap)
            try:
                self.wait_ready(child, namespace, before)
                wall = time.perf_counter() - began
            finally:
                child.kill()
        statuses = sum(n for request, n in (self.writes() - before).items() if is_status(request))
        return {"wall": wall, "statuses": statuses}

    def wait_ready(self, child: Child, namespace: str, before: Counter[Request]) -> None:
        """Listing 5,000 resources costs the API server a second, so its counters are checked first."""

        def enough() -> bool:
            assert child.running, child.log_text()[-3000:]
            written = (self.writes() - before).items()
            return sum(n for request, n in written if is_status(request)) >= RESOURCES

        until(enough, "as many status writes as resources")
        until(lambda: self.ready(namespace) == RESOURCES, "all resources to be Ready")

    turn_port: int = 0

    def operator(self, _: str = "", *, port: int = 0, identity: str = "bench") -> Child:
        """`kquota operator` with the chart's arguments, in the environment of a pod if the machine permits."""
        if not port:
            port = self.turn_port = free_ports(1)[0]
        way, environment = self.way()
        command = [
            *way,
            str(KQUOTA),
            "operator",
            "--operator-namespace=default",
            f"--metrics-address=127.0.0.1:{port}",
            f"--identity={identity}",
        ]
        return Child(
            command,
            log=self.folder / f"{identity}-{self.turn}.log",
            environment={**IMAGE, **environment},
        )

    def way(self) -> tuple[list[str], dict[str, str]]:
        """The connection to the API server as in a pod. A kubeconfig would load the official client: 20 MB more."""
        try:
            return as_pod(self.kube, self.folder, namespace="default", account="default")
        except ServersUnavailable as missing:
            say(f"by a kubeconfig: {missing}")
            return [], {"KUBECONFIG": str(self.kube.kubeconfig)}

    def tutorial(self, bootstrap: str) -> Child:
        """`kopf run` with the tutorial's handlers."""
        command = [sys.executable, "-m", "kopf", "run", "-A", "--standalone", str(TUTORIAL)]
        environment = {"KUBECONFIG": str(self.kube.kubeconfig), "BOOTSTRAP": bootstrap}
        return Child(
            command, log=self.folder / f"tutorial-{self.turn}.log", environment=environment
        )

    def candidates(self) -> dict[str, Take]:
        """Both operators, by name."""
        return {
            "ours": lambda: self.sample(self.operator),
            "tutorial": lambda: self.sample(self.tutorial),
        }


@contextmanager
def workspace() -> Iterator[Bench]:
    """A running Kubernetes with the CRDs of kquota."""
    scratch = ScratchFolder.make("bench-operator-")
    try:
        with KubeCluster() as kube:
            kube.install_crds()
            kube.apply(ADMINISTRATOR)
            yield Bench(kube=kube, folder=scratch.path)
    finally:
        scratch.remove()


def document(number: int) -> dict[str, Any]:
    """A resource for one user with two limits."""
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": {"name": f"user-{number}"},
        "spec": {
            "clusterRef": {"name": "bench"},
            "entity": {"user": {"name": f"user-{number}"}},
            "limits": {"producerByteRate": 1048576 + number, "consumerByteRate": "20Mi"},
        },
    }


def is_ready(obj: Mapping[str, Any]) -> bool:
    status = obj.get("status", {})
    current = status.get("observedGeneration") == obj["metadata"]["generation"]
    conditions = status.get("conditions", ())
    return current and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def until(claim: Callable[[], bool], what: str, *, pace: float = PACE) -> None:
    """Poll at a fixed interval.

    Raises:
        SystemExit: Not in time.
    """
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if claim():
                return
        time.sleep(pace)
    raise SystemExit(f"waited {SECONDS:g} s for {what}")


def is_status(request: Request) -> bool:
    """Whether a write is one of a status of a ClientQuota."""
    return (request.resource, request.subresource) == ("clientquotas", "status")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def exposition(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def metric(port: int, name: str, label: str = "") -> float:
    """The sum of a metric's samples whose labels contain a text; 0 if the port does not respond."""
    try:
        lines = exposition(port).splitlines()
    except OSError:
        return 0.0
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith((name + "{", name + " ")) and label in line
    )
