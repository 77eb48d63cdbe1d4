"""Which errors of a request another try can heal."""

from typing import Final

from reconciler.errors import BrokerError, ClientError, RequestTimeout
from reconciler.wire.error_codes import (
    NOT_CONTROLLER,
    REBOOTSTRAP_REQUIRED,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
)

VAGUE_RETRIES: Final = 2
"""How often UNKNOWN_SERVER_ERROR is tried again; it says nothing about whether that can help."""

_TRANSIENT: Final = frozenset({REQUEST_TIMED_OUT, NOT_CONTROLLER, REBOOTSTRAP_REQUIRED})


def can_help(error: ClientError, vague: int) -> bool:
    """Whether another try can help.

    Args:
        error: Why the last try failed.
        vague: How many tries of this call were answered with UNKNOWN_SERVER_ERROR.
    """
    if isinstance(error, BrokerError):
        return error.code in _TRANSIENT or (
            error.code == UNKNOWN_SERVER_ERROR and vague <= VAGUE_RETRIES
        )
    # A throttled connection is left alone; a new one would only dodge the quota.
    throttled = isinstance(error, RequestTimeout) and error.phase == "throttled"
    return error.retriable and not throttled
