"""A rendered release without its pods, installed in a running Kubernetes during a test; queries to its authorizer."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.charts.chart_renderer import Manifest, rendered
from tests.servers.kube.cluster import KubeCluster

PODS = ("Deployment", "Job", "Pod")
CLUSTER_SCOPED = (
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ClusterRoleBinding",
    "ClusterRole",
)
FULLNAME = "quotas-kafka-quota-reconciler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The namespaces and service accounts of a release."""

    kube: KubeCluster
    home: str
    watched: str
    objects: tuple[Manifest, ...]

    @property
    def operator(self) -> str:
        """The operator's user name."""
        return f"system:serviceaccount:{self.home}:{FULLNAME}"

    @property
    def releaser(self) -> str:
        """The release hook's user name."""
        return f"{self.operator}-release"

    def may(
        self, user: str, verb: str, resource: str, *, namespace: str = "", name: str = ""
    ) -> bool:
        """Whether `user` has the right; `resource` is `group/plural` or `group/plural/subresource`, "" = core group."""
        group, plural, *subresources = resource.split("/")
        attributes = {
            "namespace": namespace,
            "verb": verb,
            "group": group,
            "resource": plural,
            "name": name,
            "subresource": "".join(subresources),
        }
        groups = ["system:authenticated"]
        if user.startswith("system:serviceaccount:"):
            groups += ["system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}"]
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.kube.api.call("POST", path, review).need()["status"]["allowed"])


def list_text(objects: Sequence[Manifest]) -> str:
    """All objects as one text; each names its namespace."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


@contextmanager
def placed(
    kube: KubeCluster, *arguments: str, narrow: bool = True, with_pods: bool = False
) -> Iterator[Placed]:
    """Apply everything except pods and CRDs; delete cluster-scoped objects at the end.

    Args:
        arguments: Additional arguments of `helm template`.
        narrow: Whether one namespace is watched, instead of all.
        with_pods: Whether `objects` includes objects that create pods, which are not applied.
    """
    home, watched = kube.fresh_namespace(), kube.fresh_namespace()
    scope = ("--set", f"watch.namespaces={{{watched}}}") if narrow else ()
    manifests = rendered("--set", "crds.enabled=false", *scope, *arguments, namespace=home)
    objects = tuple(manifest for manifest in manifests if manifest["kind"] not in PODS)
    kube.kubectl("apply", "-f", "-", input=list_text(objects))
    try:
        release_objects = tuple(manifests) if with_pods else objects
        yield Placed(kube=kube, home=home, watched=watched, objects=release_objects)
    finally:
        gone = [
            manifest
            for manifest in objects
            if manifest["kind"] in CLUSTER_SCOPED
            or manifest["metadata"].get("namespace") == "default"
        ]
        if gone:
            kube.kubectl("delete", "--ignore-not-found", "-f", "-", input=list_text(gone))
        for namespace in (home, watched):
            kube.api.call("DELETE", f"/api/v1/namespaces/{namespace}")
