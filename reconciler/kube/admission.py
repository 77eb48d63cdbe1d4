"""An AdmissionReview to its answer: what the broker refuses is refused, what could not be asked is only said. No HTTP here.

The webhook is a convenience, never a wall: the operator judges every document again. So nothing but the broker's own
refusal (or that of Kafka's rules, where we may not ask it) denies a request; everything else is a warning.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from reconciler.errors import KquotaError
from reconciler.kube.resources import GROUP, Obj, cluster_name_of, is_terminating, spec_of
from reconciler.kube.served import CLIENT_QUOTAS
from reconciler.kube.standing import Kind, stand
from reconciler.manifest.cluster import QuotaCluster
from reconciler.quota import advice
from reconciler.quota.desired import Declaration, merge
from reconciler.quota.entity import Entity
from reconciler.quota.outcome import Alteration, Rejected
from reconciler.quota.report import Verdict
from reconciler.quota.state import set_values
from reconciler.render.names import entity_text, escaped

API_VERSION: Final = "admission.k8s.io/v1"
LONGEST_WARNING: Final = 250
"""Characters; Kubernetes asks for 256 at most, and cuts all of them together at 4,096 bytes."""

MOST_WARNINGS: Final = 12
_ASKED: Final = frozenset({"CREATE", "UPDATE"})
_NO_NAME: Final = "unnamed"
"""Stands for a name that the API server has yet to make (`generateName`)."""

_NOT_APPLIED: Final = frozenset({Kind.INVALID, Kind.NOT_GRANTED, Kind.OUT_OF_SCOPE})

_log = logging.getLogger("reconciler.kube")


class Malformed(ValueError):
    """It is no AdmissionReview; the sentence says why."""


class Broker(Protocol):
    """Whoever knows the Kafka clusters."""

    async def cluster(self, name: str) -> QuotaCluster | None:
        """A QuotaCluster that can be used; ``None`` = there is none of this name.

        Raises:
            KquotaError: It cannot be read, or has faults of its own.
        """
        ...

    async def ask(self, cluster: QuotaCluster, alterations: Sequence[Alteration]) -> Verdict:
        """What the broker would say, by validate-only; Kafka's rules where we may not ask it.

        Raises:
            KquotaError: It cannot be asked.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is answered.

    Attributes:
        denied: Why it is denied; "" = it is not.
        warnings: Sentences for whoever sent the request.
    """

    denied: str = ""
    warnings: tuple[str, ...] = ()


FINE: Final = Decision()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What of an AdmissionReview counts.

    Attributes:
        uid: To be given back.
        obj: The object as it would be stored; ``None`` = nothing that concerns us.
    """

    uid: str
    obj: Obj | None


def parse(review: object) -> Request:
    """The request in an AdmissionReview.

    Raises:
        Malformed: It is none.
    """
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise Malformed("this is no AdmissionReview")
    if review.get("apiVersion") != API_VERSION:
        raise Malformed(f"only {API_VERSION} is understood")
    request = review.get("request")
    if not isinstance(request, dict):
        raise Malformed("it has no request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= 256:
        raise Malformed("the request has no uid")
    resource = request.get("resource")
    ours = isinstance(resource, dict) and (resource.get("group"), resource.get("resource")) == (
        GROUP,
        CLIENT_QUOTAS.plural,
    )
    asked = request.get("operation") in _ASKED and not request.get("subResource")
    if not ours or not asked:
        return Request(uid=uid, obj=None)
    obj = request.get("object")
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        raise Malformed("the request has no object")
    old = request.get("oldObject")
    unchanged = isinstance(old, dict) and spec_of(old) == spec_of(obj)
    if unchanged or is_terminating(obj):
        return Request(uid=uid, obj=None)
    return Request(uid=uid, obj=_placed(obj, request))


def _placed(obj: Mapping[str, Any], request: Mapping[str, Any]) -> Obj:
    metadata = dict(obj["metadata"])
    metadata.setdefault("namespace", request.get("namespace") or "default")
    if not metadata.get("name"):
        metadata["name"] = _NO_NAME
    return {**obj, "metadata": metadata}


async def decide(obj: Obj, broker: Broker) -> Decision:
    """Whether a ClientQuota may be stored, and what its author should know. Never raises for what others did wrong."""
    name = cluster_name_of(obj)
    try:
        cluster = await broker.cluster(name)
    except KquotaError as error:
        _log.warning("admission: QuotaCluster %s cannot be used: %s", name, error)
        return _warned(f"QuotaCluster {name} cannot be used as it is, so the broker was not asked")
    if cluster is None:
        return _warned(f"there is no QuotaCluster {name} yet, so the broker was not asked")
    standing = stand(obj, {name: cluster})
    declaration = standing.declaration
    if declaration is None or standing.kind in _NOT_APPLIED:
        return _warned(*(f"it will not be applied: {one}" for one in standing.messages))
    doubts = (*standing.messages, *_advice(declaration))
    try:
        verdict = await broker.ask(cluster, [_alteration(declaration)])
    except KquotaError as error:
        # Addresses and principals are no business of a tenant; the log has them.
        _log.warning("admission: %s was not asked: %s", name, error)
        return _warned("the broker was not asked, because it cannot be reached now", *doubts)
    denied = _refusal(verdict)
    return Decision(denied=denied, warnings=_bounded((*_skipped(verdict), *doubts)))


def _alteration(declaration: Declaration) -> Alteration:
    operations = tuple((key.value, value) for key, value in set_values(declaration.limits))
    return Alteration(declaration.entity, operations)


def _advice(declaration: Declaration) -> Iterable[str]:
    return (one.message for one in advice.warnings(merge([declaration])))


def _refusal(verdict: Verdict) -> str:
    who = "the broker" if verdict.source == "broker" else f"Kafka ({verdict.source})"
    return "; ".join(_words(who, subject, one) for subject, one in verdict.refused.items())


def _words(who: str, subject: Entity, rejected: Rejected) -> str:
    said = escaped(" ".join(rejected.message.split()))
    return f"{who} refuses {entity_text(subject)}: {said} ({rejected.name})"


def _skipped(verdict: Verdict) -> Iterable[str]:
    if verdict.refused or (verdict.source == "broker" and not verdict.why):
        return
    if verdict.source == "broker":
        yield f"the broker gave no verdict: {verdict.why}"
        return
    why = f" because {verdict.why}" if verdict.why else ""
    rules = "" if verdict.source == "none" else f"; {verdict.source} has no objection"
    yield f"the broker itself was not asked{why}{rules}"


def _warned(*sentences: str) -> Decision:
    return Decision(warnings=_bounded(sentences))


def _bounded(sentences: Iterable[str]) -> tuple[str, ...]:
    found = [escaped(one) for one in dict.fromkeys(sentences) if one]
    cut = [
        one if len(one) <= LONGEST_WARNING else f"{one[: LONGEST_WARNING - 3]}..."
        for one in found[:MOST_WARNINGS]
    ]
    if len(found) > MOST_WARNINGS:
        cut[-1] = f"and {len(found) - MOST_WARNINGS + 1} more warnings"
    return tuple(cut)


def answer(request: Request, decision: Decision) -> Obj:
    """The AdmissionReview that is sent back."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": not decision.denied}
    if decision.denied:
        response["status"] = {"code": 422, "reason": "Invalid", "message": decision.denied}
    if decision.warnings:
        response["warnings"] = list(decision.warnings)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
