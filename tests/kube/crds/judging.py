"""One verdict on a document: the API server's, by a dry run, compared with the project's.

The project and the API server must agree on every document, with two exceptions by design. Files are
read more strictly where the server's reading probably differs from the writer's intention:

- a server drops fields that are null; in a file null means a forgotten value and never the default;
- a server accepts 5.0 as the whole number 5, except where a CEL rule reads a quantity; a file must
  contain 5.

Neither occurs in stored objects, which the operator reads: those must be accepted
whenever the server accepted. One further exception: a whole number above 2^53 that no float64
represents reaches the CEL of a decimal field as a float64, so only the project can refuse it.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from reconciler.errors import QuotaValueError
from reconciler.manifest import explanation
from reconciler.manifest.document import DocumentDeclined, from_resource
from reconciler.manifest.rules.client_quota import rate
from reconciler.manifest.syntax.nodes import from_json
from reconciler.quota.keys import FIELDS, RULES
from tests.servers.kube.api import Answer, Api

GROUP: Final = "/apis/kafka-quotas.io/v1alpha1"
PATHS: Final = {
    "ClientQuota": f"{GROUP}/namespaces/default/clientquotas",
    "QuotaCluster": f"{GROUP}/quotaclusters",
}
DRY_RUN: Final = {"dryRun": "All", "fieldValidation": "Strict"}
EXACT: Final = 2**53


def reasons_of(document: Mapping[str, Any]) -> list[str]:
    """Why the project refuses a document, by the schema with its rules; the hand-written reader must agree."""
    kind = document["kind"]
    reasons = [problem.message for problem in explanation.problems(kind, from_json(document), "")]
    if kind == "ClientQuota":
        try:
            from_resource(document)
        except DocumentDeclined:
            assert reasons, "a document is refused without a reason"
        else:
            assert not reasons, f"a document is accepted in spite of {reasons}"
    return reasons


def is_accepted(document: Mapping[str, Any]) -> bool:
    """Whether the project accepts a document."""
    return not reasons_of(document)


def as_stored(value: Any) -> Any:
    """A document as an API server stores it: without nulls, whole numbers without a decimal point."""
    match value:
        case dict():
            return {name: as_stored(part) for name, part in value.items() if part is not None}
        case list():
            return [as_stored(part) for part in value]
        case float() if value.is_integer() and abs(value) < EXACT:
            return int(value)
    return value


def pointed(value: Any) -> bool:
    """Whether the document contains a whole number with a decimal point or an exponent."""
    match value:
        case dict():
            return any(pointed(part) for part in value.values())
        case list():
            return any(pointed(part) for part in value)
        case float():
            return value.is_integer()
    return False


def lost(document: Mapping[str, Any]) -> bool:
    """Whether a decimal limit is a whole number that no float64 holds."""
    spec = document.get("spec")
    limits = spec.get("limits") if isinstance(spec, dict) else None
    return isinstance(limits, dict) and any(
        type(value) is int
        and abs(value) > EXACT
        and not RULES[key].is_integer
        and not _held(key, value)
        for field, key in FIELDS.items()
        if (value := limits.get(field)) is not None
    )


def _held(key: Any, value: int) -> bool:
    try:
        rate(key, value)
    except QuotaValueError:
        return False
    return True


def dry_run(api: Api, document: Mapping[str, Any], *, attempts: int = 5) -> Answer:
    """The API server's response to a dry run of creation with strict field validation.

    The server ends a write after 34 seconds (`requestTimeoutUpperBound`, 1.36), which is no verdict: on a busy machine a
    document of a megabyte can take longer. The request is repeated then.
    """
    answer = api.call("POST", PATHS[document["kind"]], document, query=DRY_RUN)
    if answer.status == HTTPStatus.GATEWAY_TIMEOUT and attempts > 1:
        return dry_run(api, document, attempts=attempts - 1)
    return answer


def judge(api: Api, document: Mapping[str, Any]) -> bool:
    """The API server's verdict, after checking that the project's is the same.

    Raises:
        AssertionError: the verdicts differ; the message has both reasons.
    """
    answer = dry_run(api, document)
    assert answer.status in {201, 400, 422}, answer.message
    reasons = reasons_of(document)
    if not reasons:
        assert answer.ok, f"kquota accepts, the server responds: {answer.message}"
        assert is_accepted(answer.body), "accepted in a file, and refused when read back"
    elif answer.ok and lost(document):
        assert not is_accepted(as_stored(document))
    else:
        stored = as_stored(document)
        accepted = json.dumps(stored) != json.dumps(document) and is_accepted(stored)
        same = accepted is answer.ok or (not answer.ok and pointed(document))
        assert same, f"kquota: {reasons}, the server responds {answer.message}"
        assert not answer.ok or is_accepted(answer.body), f"stored and refused: {reasons}"
    return answer.ok
