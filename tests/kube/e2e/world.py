"""A Kubernetes with the chart installed, a Kafka broker, and the operator as a process with the chart's rights.

No container runs: `helm install --wait` is executed, then the process is started with the arguments and
the ServiceAccount token that the Deployment would give it. `Place` is for a session, `World` for one test.
"""

import contextlib
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tests.servers import raw_quotas
from tests.servers.kafka import KafkaCluster
from tests.servers.kube.api import APPLY_PATCH, MERGE_PATCH
from tests.servers.kube.cluster import KubeCluster
from tests.servers.ports import free_ports
from tests.servers.processes import Child

ROOT = Path(__file__).parents[3]
RELEASE = "kquota"
CHART = ROOT / "charts" / "kafka-quota-reconciler"
KQUOTA = ROOT / ".venv" / "bin" / "kquota"
SECONDS = 300.0
"""Maximum time of any wait in a test."""

Obj = dict[str, Any]


PREFIXES = {
    "clientquotas": "/apis/kafka-quotas.io/v1alpha1",
    "quotaclusters": "/apis/kafka-quotas.io/v1alpha1",
    "configmaps": "/api/v1",
    "namespaces": "/api/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "events": "/apis/events.k8s.io/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
}


def resource_path(kind: str, namespace: str = "", name: str = "") -> str:
    """The path of the objects of a kind (in a namespace), or of the object with a name."""
    parts = (*(("namespaces", namespace) if namespace else ()), kind, *((name,) if name else ()))
    return "/".join((PREFIXES[kind], *parts))


class Late(AssertionError):
    """A condition was not true in time."""


def eventually(claim: Callable[[], object], *, seconds: float = SECONDS, what: str = "") -> Any:
    """The first true result of `claim`, which is polled.

    Raises:
        Late: there was none in time; the message has the last result or error.
    """
    deadline = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = claim()
        except (KeyError, IndexError, OSError) as error:
            last = error
        else:
            if last:
                return last
        time.sleep(0.05)
    raise Late(f"{what or claim} did not come about in {seconds:g} s; last: {last!r}")


class Operator:
    """One operator process."""

    def __init__(
        self,
        kube: KubeCluster,
        folder: Path,
        *,
        namespace: str,
        account: str,
        rendered: list[str],
        arguments: list[str],
        identity: str,
    ) -> None:
        self.port = free_ports(1)[0]
        self.log = folder / f"{identity}.log"
        command = [
            str(KQUOTA),
            *(argument for argument in rendered if not argument.startswith("--metrics-address")),
            f"--metrics-address=127.0.0.1:{self.port}",
            f"--kubeconfig={kube.kubeconfig_for(namespace, account)}",
            *arguments,
        ]
        environment = {"POD_NAME": identity, "POD_NAMESPACE": namespace}
        self.child = Child(command, log=self.log, environment=environment)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a page of its health server; (0, error) without a response."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", timeout=60
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def ready(self) -> bool:
        """Whether /readyz succeeds; a process that ended fails the test with its log."""
        assert self.child.running, self.log.read_text(encoding="utf-8")[-4000:]
        return self.get("/readyz")[0] == 200

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        pairs = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in self.get("/metrics")[1].splitlines()
            if line.startswith((name + "{", name + " ")) and all(pair in line for pair in pairs)
        )

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        self.child.signal(signal.SIGTERM)
        assert self.child.ended_within(SECONDS), "the operator did not end"
        return int(self.child.process.returncode)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.child.kill()


class Place:
    """Kubernetes, Kafka and the installed chart, for a session."""

    def __init__(self, kube: KubeCluster, kafka: KafkaCluster) -> None:
        self.kube, self.kafka = kube, kafka
        self.namespace = kube.fresh_namespace(
            labels={"pod-security.kubernetes.io/enforce": "restricted"}
        )
        self.install()

    def install(self) -> None:
        """Install the chart, with a user who may forge statuses."""
        self.release(CHART, "--set", "admissionPolicies.statusWriters={admin}")

    def release(self, chart: Path, *values: str) -> None:
        """Install or upgrade the release, and read the commands of its pods."""
        where = ("--namespace", self.namespace, "--wait", "--timeout", "240s")
        with self.kube.pods_become_ready():
            self.kube.helm("upgrade", "--install", RELEASE, str(chart), *where, *values)
        deployment = json.loads(
            self.kube.kubectl("get", "deploy", "-n", self.namespace, "-o", "json").stdout
        )["items"][0]
        pod = deployment["spec"]["template"]["spec"]
        self.account = pod["serviceAccountName"]
        self.arguments = [
            argument.replace("$(POD_NAMESPACE)", self.namespace)
            for argument in pod["containers"][0]["args"]
        ]

    def clear(self) -> None:
        """Delete all objects of a test."""
        self.kube.heal()
        for kind in ("clientquotas", "quotaclusters"):
            for obj in self.items(kind):
                self._remove(kind, obj)
        for kind in ("configmaps", "leases"):
            for obj in self.items(kind, self.namespace):
                if obj["metadata"]["name"] != "kube-root-ca.crt":
                    self._remove(kind, obj)
        raw_quotas.clear(self.kafka.port())

    def _remove(self, kind: str, obj: Obj) -> None:
        metadata = obj["metadata"]
        path = resource_path(kind, metadata.get("namespace", ""), metadata["name"])
        calls: list[tuple[str, object]] = [("DELETE", None)]
        if metadata.get("finalizers"):
            calls.insert(0, ("PATCH", {"metadata": {"finalizers": None}}))
        for method, body in calls:
            answer = self.kube.api.call(method, path, body, kind=MERGE_PATCH)
            if answer.status != 404:
                answer.need()

    def items(self, kind: str, namespace: str = "") -> list[Obj]:
        """All objects of a kind."""
        return list(self.kube.api.get(resource_path(kind, namespace)).need()["items"])


class World:
    """The world of one test: an operator, a QuotaCluster `prod`, a namespace `team`."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.kube, self.kafka = place, place.kube, place.kafka
        self.folder = folder
        self.team = self.kube.fresh_namespace()
        self.operators: list[Operator] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for operator in self.operators:
            if operator.child.running:
                operator.kill()
        self.place.clear()
        self.kube.api.call("DELETE", f"/api/v1/namespaces/{self.team}")

    # ---- doing -------------------------------------------------------------------------------

    def _apply(self, obj: Obj, namespace: str = "") -> None:
        """Server-side apply over the open connection: each kubectl costs half a second of CPU time."""
        path = resource_path(f"{obj['kind'].lower()}s", namespace, obj["metadata"]["name"])
        query = {"fieldManager": "team", "force": "true", "fieldValidation": "Strict"}
        self.kube.api.call("PATCH", path, obj, kind=APPLY_PATCH, query=query).need()

    def start(self, *arguments: str, ready: bool = True) -> Operator:
        """Start a new operator process with the chart's rights."""
        operator = Operator(
            self.kube,
            self.folder,
            namespace=self.place.namespace,
            account=self.place.account,
            rendered=self.place.arguments,
            arguments=list(arguments),
            identity=f"operator-{len(self.operators)}",
        )
        self.operators.append(operator)
        if ready:
            eventually(operator.ready, what="the operator to be ready")
        return operator

    def cluster(
        self, name: str = "prod", *, labels: Mapping[str, str] | None = None, **spec: object
    ) -> None:
        """Create or change a QuotaCluster; the default interval is one second."""
        fields = {"bootstrapServers": self.kafka.bootstrap(), "interval": "1s", **spec}
        self._apply(
            {
                "apiVersion": "kafka-quotas.io/v1alpha1",
                "kind": "QuotaCluster",
                "metadata": {"name": name, "labels": dict(labels or {})},
                "spec": {key: value for key, value in fields.items() if value is not None},
            }
        )

    def quota(
        self,
        name: str,
        *,
        user: str | None = None,
        namespace: str = "",
        cluster: str = "prod",
        limits: Mapping[str, object] | None = None,
        entity: Obj | None = None,
        **spec: object,
    ) -> None:
        """Create or change a ClientQuota; by default for the user of its own name."""
        self._apply(
            self.document(name, user=user, cluster=cluster, limits=limits, entity=entity, **spec),
            namespace or self.team,
        )

    @staticmethod
    def document(
        name: str,
        *,
        user: str | None = None,
        cluster: str = "prod",
        limits: Mapping[str, object] | None = None,
        entity: Obj | None = None,
        **spec: object,
    ) -> Obj:
        """A ClientQuota as it would be applied."""
        fields = {
            "clusterRef": {"name": cluster},
            "entity": entity or {"user": {"name": user or name}},
            "limits": dict(limits or {"producerByteRate": 1048576}),
            **spec,
        }
        return {
            "apiVersion": "kafka-quotas.io/v1alpha1",
            "kind": "ClientQuota",
            "metadata": {"name": name},
            "spec": {key: value for key, value in fields.items() if value is not None},
        }

    def delete(self, name: str, *, namespace: str = "") -> None:
        """Request the deletion of a ClientQuota, without waiting."""
        path = resource_path("clientquotas", namespace or self.team, name)
        self.kube.api.call("DELETE", path).need()

    # ---- seeing ------------------------------------------------------------------------------

    def live(self) -> dict[str, dict[str, float]]:
        """Live quotas of the given users, from the broker."""
        return {
            str(dict(owner)["user"]): values
            for owner, values in raw_quotas.describe(self.kafka.port()).items()
            if [kind for kind, _ in owner] == ["user"]
        }

    def get(self, name: str, *, kind: str = "clientquota", namespace: str = "") -> Obj:
        """The current object; empty if there is none."""
        where = namespace or self.team if kind == "clientquota" else ""
        answer = self.kube.api.get(resource_path(f"{kind}s", where, name))
        return {} if answer.status == 404 else dict(answer.need())

    def reason(self, name: str, *, kind: str = "clientquota", namespace: str = "") -> str:
        """The reason of the Ready condition, "" if there is none."""
        return self.condition(name, "Ready", kind=kind, namespace=namespace).get("reason", "")

    def condition(
        self, name: str, which: str, *, kind: str = "clientquota", namespace: str = ""
    ) -> Obj:
        """One condition, empty if there is none."""
        obj = self.get(name, kind=kind, namespace=namespace)
        conditions = obj.get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == which), {})

    def becomes(
        self,
        name: str,
        reason: str,
        *,
        kind: str = "clientquota",
        namespace: str = "",
        seconds: float = SECONDS,
    ) -> Obj:
        """Wait for a reason at the current generation; return the object."""

        def claim() -> Obj | None:
            obj = self.get(name, kind=kind, namespace=namespace)
            status = obj.get("status", {})
            ready = [
                condition
                for condition in status.get("conditions", [])
                if condition["type"] == "Ready"
            ]
            fits = ready and ready[0]["reason"] == reason
            current = status.get("observedGeneration") == obj["metadata"]["generation"]
            return obj if fits and current else None

        try:
            return eventually(claim, seconds=seconds, what=f"{kind} {name} to become {reason}")
        except Late as late:
            status = json.dumps(
                self.get(name, kind=kind, namespace=namespace).get("status"), indent=1
            )
            logs = "\n".join(
                operator.log.read_text(encoding="utf-8")[-2500:] for operator in self.operators
            )
            raise Late(f"{late}\nstatus: {status}\nlogs: {logs}") from None

    def events(self, namespace: str = "") -> list[Obj]:
        """Events of a namespace, `default` for those of QuotaClusters."""
        return self.place.items("events", namespace or self.team)

    @contextlib.contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Writes to the API server within the block, by verb and resource, without Leases; filled at the end.

        Waits first until namespaces of earlier tests are deleted, because their cleanup writes, too.
        """
        writes: dict[str, int] = {}
        eventually(
            lambda: (
                not any(
                    "deletionTimestamp" in obj["metadata"] for obj in self.place.items("namespaces")
                )
            ),
            seconds=240,
            what="earlier namespaces to be gone",
        )
        before = self.kube.metrics()
        yield writes
        for request, count in (self.kube.metrics() - before).items():
            if request.writes and request.resource not in {
                "leases",
                "tokenreviews",
                "serviceaccounts",
            }:
                writes[f"{request.verb} {request.resource}/{request.subresource}".rstrip("/")] = (
                    count
                )
