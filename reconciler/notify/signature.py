"""Signs messages, so that a receiver can verify sender and time. HMAC-SHA256 over time and body."""

import hashlib
import hmac
from typing import Final

from reconciler.base.secret import Secret

HEADER: Final = "X-Kquota-Signature"
"""``t=<seconds since the epoch>,v1=<hex of HMAC-SHA256 over "<t>." and the body>``."""


def signature(body: bytes, key: Secret, *, at: float) -> str:
    """Return the value of ``HEADER``.

    It covers the time, so that a receiver can refuse old messages: a recorded message cannot be replayed later.
    """
    time = str(int(at))
    mac = hmac.new(key.reveal().encode(), time.encode() + b"." + body, hashlib.sha256)
    return f"t={time},v1={mac.hexdigest()}"
