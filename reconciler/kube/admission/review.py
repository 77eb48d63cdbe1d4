"""Answers AdmissionReviews of ClientQuotas: everything is admitted, with warnings about what will have no effect. Pure.

The webhook is a convenience, not a barrier: the schema refuses what no broker accepts, and the operator judges every
document again. A warning contains nothing of other tenants, and no address or principal.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from reconciler.base.escaping import escaped
from reconciler.errors import ConfigError
from reconciler.kube.api.custom_resources import GROUP, Obj, Resource, parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.configuration.cluster_references import read_cluster
from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.key_status import violation_text
from reconciler.kube.status.reasons import Reason
from reconciler.kube.watch.projection import NO_CLUSTER, projections
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota import rule_warnings
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.guards import declaration_violations
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.state import set_values

API_VERSION: Final = "admission.k8s.io/v1"
LONGEST_WARNING: Final = 250
"""Characters; Kubernetes recommends 256 at most, and cuts all warnings together at 4,096 bytes."""

MOST_WARNINGS: Final = 12
_REVIEWED: Final = frozenset({"CREATE", "UPDATE"})
_NO_NAME: Final = "unnamed"
"""Replaces a name that the API server has yet to generate (`generateName`)."""

_NOT_APPLIED: Final = frozenset({Reason.INVALID, Reason.NOT_GRANTED, Reason.OUT_OF_SCOPE})


class MalformedReview(ValueError):
    """The body is not a valid AdmissionReview; the message says why."""


class _Request(Struct, frozen=True, kw_only=True, rename="camel"):
    uid: Annotated[str, Meta(min_length=1, max_length=256)]
    resource: dict[str, str]
    operation: str = ""
    sub_resource: str | None = None
    namespace: str | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Review(Struct, frozen=True, kw_only=True, rename="camel"):
    kind: Literal["AdmissionReview"]
    api_version: Literal["admission.k8s.io/v1"]
    request: _Request


class AdmissionRequest(Struct, frozen=True, kw_only=True):
    """The relevant part of an AdmissionReview."""

    uid: str  # returned in the response
    obj: Resource | None  # the object as it would be stored; None = nothing to review


def parse(review: object) -> AdmissionRequest:
    """Return the request of an AdmissionReview.

    Raises:
        MalformedReview: The body is not a valid AdmissionReview.
    """
    try:
        request = msgspec.convert(review, _Review).request
    except msgspec.ValidationError as error:
        raise MalformedReview(f"no AdmissionReview of {API_VERSION}: {error}") from None
    is_reviewed = (
        (request.resource.get("group"), request.resource.get("resource"))
        == (GROUP, CLIENT_QUOTAS.plural)
        and request.operation in _REVIEWED
        and not request.sub_resource
    )
    if not is_reviewed:
        return AdmissionRequest(uid=request.uid, obj=None)
    obj = request.object or {}
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        raise MalformedReview("the request has no object")
    is_unchanged = request.old_object is not None and request.old_object.get("spec") == obj.get(
        "spec"
    )
    if is_unchanged or "deletionTimestamp" in metadata:
        return AdmissionRequest(uid=request.uid, obj=None)
    namespace = metadata.get("namespace") or request.namespace or "default"
    metadata = {**metadata, "namespace": namespace, "name": metadata.get("name") or _NO_NAME}
    return AdmissionRequest(uid=request.uid, obj=parsed({**obj, "metadata": metadata}))


def warnings_about(
    obj: Resource, clusters: Mapping[str, Resource], *, allow_references: bool
) -> tuple[str, ...]:
    """Return why parts of a ClientQuota will not be applied.

    Args:
        clusters: The QuotaClusters that the operator serves, by name.
        allow_references: Whether they may refer to files and variables of the operator.
    """
    views = projections(obj, clusters)
    if NO_CLUSTER in views:
        return _bounded(assess_eligibility(obj, {}).messages)
    sentences: list[str] = []
    for name, view in sorted(views.items()):
        prefix = f"{name}: " if view.selected_cluster else ""
        about_view = _in_cluster(view, clusters.get(name), allow_references=allow_references)
        sentences.extend(prefix + sentence for sentence in about_view)
    return _bounded(sentences)


def _in_cluster(
    obj: Resource, cluster_obj: Resource | None, *, allow_references: bool
) -> Iterator[str]:
    """Yield the sentences about a document of one cluster."""
    name = obj.cluster_name
    if cluster_obj is None:
        yield f"QuotaCluster {name} does not exist yet"
        return
    try:
        cluster = read_cluster(cluster_obj, allow_references=allow_references)
    except ConfigError:
        yield f"QuotaCluster {name} is invalid; see its status"
        return
    eligibility = assess_eligibility(obj, {name: cluster})
    declaration = eligibility.declaration
    if declaration is None or eligibility.reason in _NOT_APPLIED:
        yield from (f"it will not be applied: {message}" for message in eligibility.messages)
        return
    if eligibility.reason is None:
        yield from _refusals(declaration, cluster)
    yield from eligibility.messages
    yield from (warning.message for warning in rule_warnings.warnings(merge([declaration])))


def _refusals(declaration: Declaration, cluster: QuotaCluster) -> Iterator[str]:
    """Yield what guards will refuse whatever is live, unless it is live already."""
    changes = [
        QuotaChange(
            entity=declaration.entity,
            key=key,
            before=None,
            after=value,
            cause=Cause.CREATE,
            claim=declaration,
        )
        for key, value in set_values(declaration.limits)
    ]
    for violation in declaration_violations(changes, cluster.guards):
        yield f"a guard will refuse it: {violation_text(violation)}"


def _bounded(sentences: Iterable[str]) -> tuple[str, ...]:
    warnings = [escaped(sentence) for sentence in dict.fromkeys(sentences) if sentence]
    cut = [
        warning if len(warning) <= LONGEST_WARNING else f"{warning[: LONGEST_WARNING - 3]}..."
        for warning in warnings[:MOST_WARNINGS]
    ]
    if len(warnings) > MOST_WARNINGS:
        cut[-1] = f"and {len(warnings) - MOST_WARNINGS + 1} more warnings"
    return tuple(cut)


def answer(request: AdmissionRequest, warnings: tuple[str, ...]) -> Obj:
    """Return the AdmissionReview response."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": True}
    if warnings:
        response["warnings"] = list(warnings)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
