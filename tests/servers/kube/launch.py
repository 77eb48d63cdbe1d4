"""Command lines, keys and kubeconfigs of the servers of a test cluster."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.servers import certs

LOOPBACK = "127.0.0.1"
PRIVATE = 0o600
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "serviceaccount-controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Folder, certificate authority and ports of a cluster."""

    folder: Path
    authority: certs.Authority
    etcd_port: int
    peer_port: int
    api_port: int

    @property
    def api_url(self) -> str:
        """URL of the API server."""
        return f"https://{LOOPBACK}:{self.api_port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.kubeconfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credential files of the API server and the administrator."""

    server: certs.Identity
    admin: certs.Identity
    signing_key: Path
    verifying_key: Path


def write_credentials(layout: Layout) -> Credentials:
    """Sign the certificates, create the key pair of service accounts, write the admin's kubeconfig."""
    key = ec.generate_private_key(ec.SECP256R1())
    signing, verifying = layout.folder / "sa.key", layout.folder / "sa.pub"
    signing.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,  # Kubernetes does not read PKCS#8 EC keys
            serialization.NoEncryption(),
        )
    )
    verifying.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    credentials = Credentials(
        server=layout.authority.server("kube-apiserver"),
        admin=layout.authority.client("admin", organisation="system:masters"),
        signing_key=signing,
        verifying_key=verifying,
    )
    user = {
        "client-certificate-data": _embedded(credentials.admin.certificate),
        "client-key-data": _embedded(credentials.admin.key),
    }
    write_kubeconfig(layout, layout.kubeconfig, user=user, namespace="default")
    return credentials


def write_kubeconfig(
    layout: Layout, path: Path, *, user: Mapping[str, str], namespace: str
) -> None:
    """Write a kubeconfig with one context, as JSON with embedded certificates."""
    cluster = {
        "server": layout.api_url,
        "certificate-authority-data": _embedded(layout.authority.certificate_file),
    }
    context = {"cluster": "test", "user": "test", "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": dict(user)}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    path.chmod(PRIVATE)


def etcd_command(layout: Layout, program: Path) -> list[str]:
    """Return the command line of a single etcd without fsync."""
    clients = f"http://{LOOPBACK}:{layout.etcd_port}"
    peers = f"http://{LOOPBACK}:{layout.peer_port}"
    return [
        str(program),
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def apiserver_command(
    layout: Layout, program: Path, credentials: Credentials, flags: tuple[str, ...]
) -> list[str]:
    """Return the command line of the API server with RBAC and default admission plugins.

    The plugin ServiceAccount is disabled, because no pod runs that needs a token.
    """
    return [
        str(program),
        f"--etcd-servers=http://{LOOPBACK}:{layout.etcd_port}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={layout.api_port}",
        f"--tls-cert-file={credentials.server.certificate}",
        f"--tls-private-key-file={credentials.server.key}",
        f"--client-ca-file={layout.authority.certificate_file}",
        f"--service-account-issuer={layout.api_url}",
        f"--service-account-key-file={credentials.verifying_key}",
        f"--service-account-signing-key-file={credentials.signing_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
        *flags,
    ]


def controller_manager_command(layout: Layout, program: Path) -> list[str]:
    """Return the command line of the controllers that charts, owner references and namespaces need."""
    return [
        str(program),
        f"--kubeconfig={layout.kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        "--secure-port=0",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def _embedded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
