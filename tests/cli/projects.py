"""Projects for tests: a kquota.yaml for one or more clusters, and manifests."""

from pathlib import Path

CLUSTER = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaCluster
metadata:
  name: {name}
spec:
  bootstrapServers: {bootstrap}
"""
PROJECT = """\
apiVersion: kafka-quotas.io/v1alpha1
kind: QuotaProject
spec:
  manifests: [quotas]
"""
QUOTA = """\
---
apiVersion: kafka-quotas.io/v1alpha1
kind: ClientQuota
metadata:
  name: {name}
  namespace: {namespace}
spec:
  clusterRef: {{name: {cluster}}}
  entity: {entity}
  limits: {limits}
"""


def quota(
    name: str,
    limits: str = "{producerByteRate: 10Mi}",
    *,
    entity: str = "",
    cluster: str = "prod",
    namespace: str = "team",
    more: str = "",
) -> str:
    """One document; by default a user of the document's name."""
    return (
        QUOTA.format(
            name=name,
            namespace=namespace,
            cluster=cluster,
            entity=entity or f"{{user: {{name: {name}}}}}",
            limits=limits,
        )
        + more
    )


def project(
    folder: Path, bootstrap: str, *documents: str, more: str = "", name: str = "prod"
) -> None:
    """A project of one cluster with one file of manifests; `more` is merged into the cluster's spec."""
    (folder / "kquota.yaml").write_text(
        PROJECT + "---\n" + CLUSTER.format(name=name, bootstrap=bootstrap) + more
    )
    manifests(folder, *documents)


def manifests(folder: Path, *documents: str) -> None:
    """Replace the manifests."""
    (folder / "quotas").mkdir(exist_ok=True)
    for old in (folder / "quotas").glob("*.yaml"):
        old.unlink()
    (folder / "quotas" / "all.yaml").write_text("".join(documents))
