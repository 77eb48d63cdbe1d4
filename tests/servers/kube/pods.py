"""Replaces the kubelet: sets the status of pending pods to Running or Succeeded.

No container runs; `helm install --wait`, `kubectl rollout status` and `kubectl wait` only read the status.
"""

import contextlib
import http.client
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from tests.servers.kube.api import MERGE_PATCH, Api

PACE_SECONDS = 0.2
CONDITIONS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
STARTED = "2026-01-01T00:00:00Z"


def settled(pod: Mapping[str, Any]) -> dict[str, object]:
    """Return the status that a kubelet would report: Ready, or Succeeded for a pod that is not restarted."""
    ends = pod["spec"].get("restartPolicy") != "Always"
    running = {"running": {"startedAt": STARTED}}
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": STARTED}}
    return {
        "phase": "Succeeded" if ends else "Running",
        "startTime": STARTED,
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "conditions": [
            {
                "type": kind,
                "status": "False" if ends and "Ready" in kind else "True",
                "lastTransitionTime": STARTED,
            }
            for kind in CONDITIONS
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": not ends,
                "started": not ends,
                "restartCount": 0,
                "state": done if ends else running,
            }
            for container in pod["spec"]["containers"]
        ],
    }


class PodsBecomeReady:
    """A context manager with a thread that updates pending pods of all namespaces."""

    def __init__(self, connect: Callable[[], Api]) -> None:
        """Use a separate connection to the API server."""
        self._connect = connect
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pods-become-ready", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread, and wait for its end."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.closing(self._connect()) as api:
            while not self._stop.wait(PACE_SECONDS):
                # Some tests stop the API server.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    self._settle(api)

    def _settle(self, api: Api) -> None:
        pending = api.get("/api/v1/pods", fieldSelector="status.phase=Pending")
        for pod in (pending.body or {}).get("items", ()) if pending.ok else ():
            name = pod["metadata"]
            path = f"/api/v1/namespaces/{name['namespace']}/pods/{name['name']}/status"
            # The response for a pod that was deleted in the meantime, 404 or 409, is ignored.
            api.call("PATCH", path, {"status": settled(pod)}, kind=MERGE_PATCH)
