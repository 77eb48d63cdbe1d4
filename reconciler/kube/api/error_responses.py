"""Maps an error response of the API server, its HTTP status and Status object, to an error of the project. No I/O.

Only messages of the API server itself are passed on (a Status object), never a proxy's page. Request bodies are never
quoted, so that no Secret or token appears in an error.
"""

from collections.abc import Mapping
from typing import Any, Final

from reconciler.base import bounded_json
from reconciler.errors import (
    Forbidden,
    Gone,
    KubernetesConflict,
    KubernetesError,
    KubernetesUnavailable,
    NotFound,
)

LONGEST_MESSAGE: Final = 2000

_KINDS: Final[Mapping[int, type[KubernetesError]]] = {
    403: Forbidden,
    404: NotFound,
    409: KubernetesConflict,
    410: Gone,
    429: KubernetesUnavailable,
}
_HINTS: Final = {
    401: "the token or certificate is not valid any more, or belongs to another cluster",
    403: "compare the operator's Roles with those of the chart",
}


def refusal(action: str, status: int, body: bytes) -> KubernetesError:
    """Return the error for a response of 300 or more.

    Args:
        action: The request in words, for example ``get secrets kafka/prod``.
        body: The body, in any format.
    """
    status_fields = _status_object(body)
    words = " ".join(str(status_fields.get("message") or "").split())[:LONGEST_MESSAGE]
    kind = _KINDS.get(status, KubernetesUnavailable if status >= 500 else KubernetesError)
    return kind(
        f"{action}: {words}" if words else f"{action}: the API server answered {status}",
        status=status,
        reason=str(status_fields.get("reason") or ""),
        hint=_HINTS.get(status, ""),
    )


def _status_object(body: bytes) -> Mapping[str, Any]:
    try:
        document = bounded_json.parse(body, most_bytes=bounded_json.ANSWER)
    except ValueError:
        return {}
    return document if isinstance(document, dict) and document.get("kind") == "Status" else {}
