"""Runs a process with the service account files of a pod, in a private mount namespace."""

import functools
import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers import jars
from tests.servers.kube.cluster import KubeCluster

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
VIEWS = (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"])
"""Commands for root, and for other users if the kernel allows user namespaces."""

SCRIPT = f'mount -t tmpfs none /var/run && mkdir -p {ACCOUNT} && cp "$0"/* {ACCOUNT} && exec "$@"'


@functools.cache
def _view() -> tuple[str, ...]:
    for view in VIEWS:
        tried = [*view, "sh", "-c", "mount -t tmpfs none /var/run"]
        try:
            done = subprocess.run(tried, capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return tuple(view)
    raise jars.ServersUnavailable("nobody may mount here: `unshare --mount` is refused")


def as_pod(
    kube: KubeCluster, folder: Path, *, namespace: str, account: str
) -> tuple[list[str], dict[str, str]]:
    """Return the prefix of a command and its environment. The command keeps the process id.

    Args:
        folder: Folder for the account's files, from which they are copied.
        namespace: Namespace of the service account.
        account: Name of the service account.

    Raises:
        ServersUnavailable: Mounting is not permitted on this machine.
    """
    view = _view()
    place = folder / f"{namespace}-{account}"
    place.mkdir(exist_ok=True)
    document = json.loads(kube.kubeconfig_for(namespace, account).read_text(encoding="utf-8"))
    (place / "token").write_text(document["users"][0]["user"]["token"], encoding="ascii")
    (place / "namespace").write_text(namespace, encoding="ascii")
    (place / "ca.crt").write_bytes(kube.ca_file.read_bytes())
    server = urlsplit(document["clusters"][0]["cluster"]["server"])
    environment = {
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    return [*view, "sh", "-c", SCRIPT, str(place)], environment
