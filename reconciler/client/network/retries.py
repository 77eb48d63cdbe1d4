"""Decides which errors of a request may be retried."""

from typing import Final

from reconciler.errors import BrokerError, ClientError, RequestTimeout
from reconciler.wire.error_codes import (
    NOT_CONTROLLER,
    REBOOTSTRAP_REQUIRED,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
)

VAGUE_RETRIES: Final = 2
"""Maximum retries after UNKNOWN_SERVER_ERROR, which does not show whether a retry can help."""

_TRANSIENT: Final = frozenset({REQUEST_TIMED_OUT, NOT_CONTROLLER, REBOOTSTRAP_REQUIRED})


def can_help(error: ClientError, vague: int) -> bool:
    """Whether a retry can help.

    Args:
        vague: Number of attempts of this call with UNKNOWN_SERVER_ERROR.
    """
    if isinstance(error, BrokerError):
        return error.code in _TRANSIENT or (
            error.code == UNKNOWN_SERVER_ERROR and vague <= VAGUE_RETRIES
        )
    # A throttled connection is not replaced; a new one would only evade the quota.
    throttled = isinstance(error, RequestTimeout) and error.phase == "throttled"
    return error.retriable and not throttled
