"""Decides AdmissionReviews: denies what the broker refuses, warns if it could not be queried. Contains no HTTP.

The webhook is a convenience, not a barrier: the operator judges every document again. So only the broker's own
refusal (or that of Kafka's rules, if we lack the permission to query it) denies a request; everything else is a
warning.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.errors import KquotaError
from reconciler.kube.api.custom_resources import GROUP, Obj, Resource, parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.status.eligibility import assess_eligibility
from reconciler.kube.status.key_status import violation_text
from reconciler.kube.status.reasons import Reason
from reconciler.kube.watch.projection import NO_CLUSTER, projections, selects_clusters
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota import rule_warnings
from reconciler.quota.entity import Entity
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.outcome import Alteration, Rejected
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.guards import declaration_violations
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import ValidationResult
from reconciler.quota.state import set_values

API_VERSION: Final = "admission.k8s.io/v1"
LONGEST_WARNING: Final = 250
"""Characters; Kubernetes recommends 256 at most, and cuts all warnings together at 4,096 bytes."""

MOST_WARNINGS: Final = 12
MOST_ASKED: Final = 16
"""Maximum number of selected clusters that are queried, concurrently; a request cannot wait for a whole fleet."""

_ASKED: Final = frozenset({"CREATE", "UPDATE"})
_NO_NAME: Final = "unnamed"
"""Replaces a name that the API server has yet to generate (`generateName`)."""

_NOT_APPLIED: Final = frozenset({Reason.INVALID, Reason.NOT_GRANTED, Reason.OUT_OF_SCOPE})

_log = logging.getLogger("reconciler.kube")


class MalformedReview(ValueError):
    """The body is not a valid AdmissionReview; the message says why."""


class BrokerValidator(Protocol):
    """Validation against the Kafka clusters."""

    async def clusters(self) -> Mapping[str, Resource]:
        """Return all QuotaClusters as resources, by name.

        Raises:
            KquotaError: They cannot be listed.
        """
        ...

    async def cluster(self, name: str) -> QuotaCluster | None:
        """Return a usable QuotaCluster; ``None`` = there is none of this name.

        Raises:
            KquotaError: It cannot be read, or is invalid.
        """
        ...

    async def ask(
        self, cluster: QuotaCluster, alterations: Sequence[Alteration]
    ) -> ValidationResult:
        """Validate alterations with validate-only; by Kafka's rules if the operator lacks the permission to query the broker.

        Raises:
            KquotaError: The broker cannot be queried.
        """
        ...


class AdmissionDecision(Struct, frozen=True, kw_only=True):
    """The decision about a request."""

    denied: str = ""  # why it is denied; "" = it is allowed
    warnings: tuple[str, ...] = ()  # sentences for the sender of the request


FINE: Final = AdmissionDecision()


class AdmissionRequest(Struct, frozen=True, kw_only=True):
    """The relevant part of an AdmissionReview."""

    uid: str  # returned in the response
    obj: Resource | None  # the object as it would be stored; None = nothing to review


def parse(review: object) -> AdmissionRequest:
    """Return the request of an AdmissionReview.

    Raises:
        MalformedReview: The body is not a valid AdmissionReview.
    """
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise MalformedReview("the body is not an AdmissionReview")
    if review.get("apiVersion") != API_VERSION:
        raise MalformedReview(f"only {API_VERSION} is supported")
    request = review.get("request")
    if not isinstance(request, dict):
        raise MalformedReview("it has no request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= 256:
        raise MalformedReview("the request has no uid")
    resource = request.get("resource")
    is_own_resource = isinstance(resource, dict) and (
        resource.get("group"),
        resource.get("resource"),
    ) == (GROUP, CLIENT_QUOTAS.plural)
    is_reviewed_operation = request.get("operation") in _ASKED and not request.get("subResource")
    if not is_own_resource or not is_reviewed_operation:
        return AdmissionRequest(uid=uid, obj=None)
    obj = request.get("object")
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise MalformedReview("the request has no object")
    old = request.get("oldObject")
    unchanged = isinstance(old, dict) and old.get("spec") == obj.get("spec")
    if unchanged or "deletionTimestamp" in obj["metadata"]:
        return AdmissionRequest(uid=uid, obj=None)
    return AdmissionRequest(uid=uid, obj=parsed(_placed(obj, request)))


def _placed(obj: Mapping[str, Any], request: Mapping[str, Any]) -> Obj:
    metadata = dict(obj["metadata"])
    metadata.setdefault("namespace", request.get("namespace") or "default")
    if not metadata.get("name"):
        metadata["name"] = _NO_NAME
    return {**obj, "metadata": metadata}


async def decide(obj: Resource, broker: BrokerValidator) -> AdmissionDecision:
    """Decide whether a ClientQuota may be stored; errors of brokers and the API server are warnings."""
    if not selects_clusters(obj):
        return await _decide_in_cluster(obj.cluster_name, obj, broker)
    try:
        views = projections(obj, await broker.clusters())
    except KquotaError as error:
        _log.warning("admission: QuotaClusters cannot be listed: %s", error)
        return _warned("QuotaClusters cannot be listed, so no broker validated this")
    if NO_CLUSTER in views:
        return _warned(*assess_eligibility(obj, {}).messages)
    names = sorted(views)
    decisions = await asyncio.gather(
        *(_decide_in_cluster(name, views[name], broker) for name in names[:MOST_ASKED])
    )
    verdicts = list(zip(names, decisions, strict=False))
    unasked = len(names) - len(verdicts)
    return AdmissionDecision(
        denied="; ".join(
            f"{name}: {verdict.denied}" for name, verdict in verdicts if verdict.denied
        ),
        warnings=_bounded(
            (
                *(
                    f"{name}: {warning}"
                    for name, verdict in verdicts
                    for warning in verdict.warnings
                ),
                *(
                    [f"the brokers of {unasked} more clusters did not validate this"]
                    if unasked
                    else ()
                ),
            )
        ),
    )


async def _decide_in_cluster(
    name: str, obj: Resource, broker: BrokerValidator
) -> AdmissionDecision:
    """Decide about a document of one cluster."""
    try:
        cluster = await broker.cluster(name)
    except KquotaError as error:
        _log.warning("admission: QuotaCluster %s cannot be used: %s", name, error)
        return _warned(f"QuotaCluster {name} is invalid, so the broker did not validate this")
    if cluster is None:
        return _warned(
            f"QuotaCluster {name} does not exist yet, so the broker did not validate this"
        )
    eligibility = assess_eligibility(obj, {name: cluster})
    declaration = eligibility.declaration
    if declaration is None or eligibility.reason in _NOT_APPLIED:
        return _warned(*(f"it will not be applied: {message}" for message in eligibility.messages))
    refusals = () if eligibility.reason is not None else _refusals(declaration, cluster)
    doubts = (*refusals, *eligibility.messages, *_advice(declaration))
    try:
        verdict = await broker.ask(cluster, [_alteration(declaration)])
    except KquotaError as error:
        # Tenants must not see addresses and principals; they are in the log.
        _log.warning("admission: %s could not be queried: %s", name, error)
        return _warned("the broker did not validate this, because it is unreachable", *doubts)
    denied = _refusal(verdict)
    return AdmissionDecision(denied=denied, warnings=_bounded((*_skipped(verdict), *doubts)))


def _alteration(declaration: Declaration) -> Alteration:
    operations = tuple((key.value, value) for key, value in set_values(declaration.limits))
    return Alteration(declaration.entity, operations)


def _refusals(declaration: Declaration, cluster: QuotaCluster) -> Iterable[str]:
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


def _advice(declaration: Declaration) -> Iterable[str]:
    desired = merge([declaration], now=SystemClock().now())
    return (warning.message for warning in rule_warnings.warnings(desired))


def _refusal(verdict: ValidationResult) -> str:
    validator = "the broker" if verdict.source == "broker" else f"Kafka ({verdict.source})"
    return "; ".join(
        _rejection_text(validator, subject, rejected)
        for subject, rejected in verdict.rejections.items()
    )


def _rejection_text(validator: str, subject: Entity, rejected: Rejected) -> str:
    message = escaped(" ".join(rejected.message.split()))
    return f"{validator} refuses {entity_text(subject)}: {message} ({rejected.name})"


def _skipped(verdict: ValidationResult) -> Iterable[str]:
    if verdict.rejections or (verdict.source == "broker" and not verdict.reason):
        return
    if verdict.source == "broker":
        yield f"the broker gave no verdict: {verdict.reason}"
        return
    reason = f" because {verdict.reason}" if verdict.reason else ""
    rules = "" if verdict.source == "none" else f"; {verdict.source} accepts it"
    yield f"the broker did not validate this{reason}{rules}"


def _warned(*sentences: str) -> AdmissionDecision:
    return AdmissionDecision(warnings=_bounded(sentences))


def _bounded(sentences: Iterable[str]) -> tuple[str, ...]:
    warnings = [escaped(sentence) for sentence in dict.fromkeys(sentences) if sentence]
    cut = [
        warning if len(warning) <= LONGEST_WARNING else f"{warning[: LONGEST_WARNING - 3]}..."
        for warning in warnings[:MOST_WARNINGS]
    ]
    if len(warnings) > MOST_WARNINGS:
        cut[-1] = f"and {len(warnings) - MOST_WARNINGS + 1} more warnings"
    return tuple(cut)


def answer(request: AdmissionRequest, decision: AdmissionDecision) -> Obj:
    """Return the AdmissionReview response."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": not decision.denied}
    if decision.denied:
        response["status"] = {"code": 422, "reason": "Invalid", "message": decision.denied}
    if decision.warnings:
        response["warnings"] = list(decision.warnings)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
