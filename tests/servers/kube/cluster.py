"""A real Kubernetes on loopback: etcd, API server and the controllers that a chart needs; without nodes.

`KubeCluster` is a context manager. No container runs (`pods` sets the status of pods); the operator is
started as a process with a token of the service account of its chart. Everything else works: CRDs with
CEL, admission policies, webhooks by URL, RBAC, server-side apply, garbage collection, Pod Security.
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from tests.servers import certs
from tests.servers.kube import launch, programs
from tests.servers.kube.api import Api
from tests.servers.kube.counts import Request, request_counts
from tests.servers.kube.pods import PodsBecomeReady
from tests.servers.node import ServerFailed
from tests.servers.ports import free_ports
from tests.servers.processes import HANG_SECONDS, Child, ScratchFolder

READY_SECONDS = 240.0
STOP_SECONDS = 2.0  # an API server waits a minute for open watches
PACE_SECONDS = 0.02
TOKEN_SECONDS = 3600
START_ATTEMPTS = 3  # another process may bind a chosen port first
IN_STARTING_ORDER = ("etcd", "apiserver", "controller-manager")
CRDS = Path(__file__).parents[3] / "crds"


class ToolFailed(Exception):
    """kubectl or helm exited with a code other than 0; the message has its stderr."""


class KubeCluster:
    """A Kubernetes cluster as a context manager."""

    def __init__(self, *, flags: Iterable[str] = ()) -> None:
        """Configure the cluster without starting it. `flags` are additional flags of the API server."""
        self._flags = tuple(flags)
        self._scratch: ScratchFolder | None = None
        self._placed: launch.Layout | None = None
        self._commands: dict[str, list[str]] = {}
        self._children: dict[str, Child] = {}
        self._admin: certs.Identity | None = None
        self._api: Api | None = None

    # ---- start and stop ---------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start all servers; wait until the API server is ready and the default service account exists.

        Raises:
            ServersUnavailable: a program is missing and cannot be built or downloaded.
            ServerFailed: a server ended, or was not ready in time.
        """
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._start_all()
            except ServerFailed as failure:
                self.__exit__()
                if attempt == START_ATTEMPTS or "address already in use" not in str(failure):
                    raise
            except BaseException:
                self.__exit__()
                raise
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all processes and delete the data."""
        if self._api is not None:
            self._api.close()
        for name in reversed(IN_STARTING_ORDER):
            child = self._children.pop(name, None)
            if child is not None:
                child.kill()
        if self._scratch is not None:
            self._scratch.remove()
        self._scratch, self._placed, self._admin, self._api = None, None, None, None

    def _start_all(self) -> None:
        etcd, apiserver = programs.etcd(), programs.apiserver()
        self._scratch = ScratchFolder.make("kube-")
        (self.folder / "home").mkdir()
        ports = free_ports(3)
        self._placed = layout = launch.Layout(
            folder=self.folder,
            authority=certs.Authority.make(self.folder / "certificates", name="kube test CA"),
            etcd_port=ports[0],
            peer_port=ports[1],
            api_port=ports[2],
        )
        credentials = launch.write_credentials(layout)
        self._admin = credentials.admin
        self._commands = {
            "etcd": launch.etcd_command(layout, etcd),
            "apiserver": launch.apiserver_command(layout, apiserver, credentials, self._flags),
            "controller-manager": launch.controller_manager_command(
                layout, programs.controller_manager()
            ),
        }
        self.heal()
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait_until(lambda: self.api.get(account).ok, "make the default service account")

    def heal(self) -> None:
        """Start every server that does not run; wait until the API server is ready."""
        for name in IN_STARTING_ORDER:
            if name not in self._children or not self._children[name].running:
                self._launch(name)
                if name == "apiserver":
                    self.wait_ready()

    def stop(self) -> None:
        """Stop all servers by SIGTERM, the API server before etcd; the data stays until `__exit__`."""
        for name in reversed(IN_STARTING_ORDER):
            self._end(name)

    def stop_apiserver(self) -> None:
        """Stop the API server by SIGTERM, and SIGKILL after `STOP_SECONDS`."""
        self._end("apiserver")

    def start_apiserver(self) -> None:
        """Start the API server again, on its port and data; wait until it is ready."""
        self._launch("apiserver")
        self.wait_ready()

    def restart_apiserver(self) -> None:
        """Stop and start the API server; objects, certificates and tokens stay valid."""
        self.stop_apiserver()
        self.start_apiserver()

    @property
    def running(self) -> bool:
        """Whether all servers run."""
        return bool(self._children) and all(child.running for child in self._children.values())

    def wait_ready(self) -> None:
        """Wait until `/readyz` succeeds."""
        self.wait_until(lambda: self.api.get("/readyz").ok, "get ready")

    def wait_until(
        self, claim: Callable[[], bool], verb: str, *, seconds: float = READY_SECONDS
    ) -> None:
        """Poll `claim`; a refused connection counts as false. Fail early if a server ends.

        Raises:
            ServerFailed: The cluster did not `verb` in time; the message has the ends of the logs.
        """
        deadline = time.monotonic() + seconds
        watched = [child for child in self._children.values() if child.running]
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if claim():
                    return
            ended = [child for child in watched if child.ended_within(PACE_SECONDS)]
            if ended or not watched or time.monotonic() > deadline:
                logs = "\n".join(child.log_text()[-3000:] for child in ended or watched)
                why = "a server ended" if ended else f"waited {seconds} s"
                raise ServerFailed(f"the cluster did not {verb}: {why}\n{logs}")

    def _launch(self, name: str) -> None:
        if name in self._children and self._children[name].running:
            raise ServerFailed(f"{name} is running")
        self._children[name] = Child(self._commands[name], log=self.folder / f"{name}.log")

    def _end(self, name: str) -> None:
        child = self._children[name]
        child.signal(signal.SIGTERM)
        if not child.ended_within(STOP_SECONDS):
            child.kill()

    # ---- addresses and credentials ----------------------------------------------------------

    @property
    def folder(self) -> Path:
        """A folder that is deleted with the cluster."""
        if self._scratch is None:
            raise ServerFailed("the cluster is not started")
        return self._scratch.path

    @property
    def _layout(self) -> launch.Layout:
        if self._placed is None:
            raise ServerFailed("the cluster is not started")
        return self._placed

    @property
    def api_url(self) -> str:
        """`https://127.0.0.1:PORT`."""
        return self._layout.api_url

    @property
    def authority(self) -> certs.Authority:
        """The cluster's CA; it may sign a webhook's certificate, too."""
        return self._layout.authority

    @property
    def ca_file(self) -> Path:
        """PEM file of the CA that signed the API server's certificate."""
        return self.authority.certificate_file

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig (group system:masters: every right)."""
        return self._layout.kubeconfig

    @property
    def api(self) -> Api:
        """The administrator's connection, for the thread that runs the tests."""
        if self._api is None:
            self._api = self.connect()
        return self._api

    def connect(self, *, token: str | None = None) -> Api:
        """Open a connection with the bearer `token`, else as the administrator."""
        identity = self._admin if token is None else None
        return Api(self.api_url, self.authority.client_context(identity), token=token)

    def log(self, server: str = "apiserver") -> str:
        """Return the output of `etcd`, `apiserver` or `controller-manager` over all its starts."""
        return self._children[server].log_text()

    def pid(self, server: str = "apiserver") -> int:
        return self._children[server].pid

    def metrics(self) -> Counter[Request]:
        """Return the requests since the API server started; see `counts.request_counts`."""
        return request_counts(self.api.get("/metrics").text)

    # ---- tools ------------------------------------------------------------------------------

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - the name in subprocess.run
        check: bool = True,
        kubeconfig: Path | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run kubectl, as the administrator unless a `kubeconfig` is given.

        Raises:
            ToolFailed: The exit code is not 0, unless `check` is False.
        """
        whose = kubeconfig or self.kubeconfig
        return self._run([str(programs.kubectl()), *arguments], input, check=check, whose=whose)

    def helm(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - the name in subprocess.run
        check: bool = True,
        kubeconfig: Path | None = None,
    ) -> "subprocess.CompletedProcess[str]":
        """Run helm; otherwise like `kubectl`."""
        whose = kubeconfig or self.kubeconfig
        return self._run([str(programs.helm()), *arguments], input, check=check, whose=whose)

    def _run(
        self, command: list[str], text: str | None, *, check: bool, whose: Path
    ) -> "subprocess.CompletedProcess[str]":
        home = str(self.folder / "home")  # the discovery cache must not outlive the cluster
        environment = {"HOME": home, "KUBECONFIG": str(whose), "PATH": os.environ["PATH"]}
        answer = subprocess.run(
            command,
            input=text or "",
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
            env=environment,
        )
        if check and answer.returncode != 0:
            words = " ".join([Path(command[0]).name, *command[1:]])
            raise ToolFailed(f"`{words}` ended with {answer.returncode}:\n{answer.stderr}")
        return answer

    def apply(self, *objects: Mapping[str, object], namespace: str = "default") -> None:
        """Run `kubectl apply` for all objects at once; `namespace` is the default of objects without one."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "--namespace", namespace, "-f", "-", input=json.dumps(items))

    def install_crds(self, folder: Path = CRDS) -> None:
        """Apply the CRDs in `folder`; wait until they are established."""
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(folder))
        self.wait_established("-f", str(folder))

    def wait_established(self, *crds: str) -> None:
        """Wait until CRDs, as arguments of kubectl, are established."""
        # A new CRD has no conditions yet, which is an error for `kubectl wait`.
        wait = ("wait", "--for=condition=Established", "--timeout=240s", *crds)
        self.wait_until(
            lambda: self.kubectl(*wait, check=False).returncode == 0,
            "establish the CRDs",
            seconds=240,
        )

    def fresh_namespace(self, *, labels: Mapping[str, str] | None = None) -> str:
        """Create a namespace; return its name."""
        name = f"test-{uuid.uuid4().hex[:10]}"
        metadata = {"name": name, "labels": dict(labels or {})}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        self.api.call("POST", "/api/v1/namespaces", body).need()
        return name

    def pods_become_ready(self) -> PodsBecomeReady:
        """Return a context manager in which pending pods become Running and Ready, and pods of Jobs Succeeded."""
        return PodsBecomeReady(self.connect)

    # ---- other users ------------------------------------------------------------------------

    def token(self, namespace: str, service_account: str, *, seconds: int = TOKEN_SECONDS) -> str:
        """Return a token of a service account (TokenRequest), valid for `seconds`, at least 600."""
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}"
        self.wait_until(lambda: self.api.get(account).ok, f"have {namespace}/{service_account}")
        path = f"{account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        return str(self.api.call("POST", path, request).need()["status"]["token"])

    def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Write a kubeconfig with a new token of a service account, with its namespace as default."""
        path = self.folder / f"{namespace}-{service_account}.kubeconfig"
        user = {"token": self.token(namespace, service_account)}
        launch.write_kubeconfig(self._layout, path, user=user, namespace=namespace)
        return path
