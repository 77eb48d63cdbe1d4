"""Signing what is sent, so that a receiver knows who sent it and when. HMAC-SHA256 over time and body."""

import hashlib
import hmac
from typing import Final

from reconciler.base.secret import Secret

HEADER: Final = "X-Kquota-Signature"
"""``t=<seconds since the epoch>,v1=<hex of HMAC-SHA256 over "<t>." and the body>``."""


def signature(body: bytes, key: Secret, *, at: float) -> str:
    """The value of ``HEADER``.

    The time is inside, so that a receiver can refuse what is old: a message that was overheard is no use later.
    """
    time = str(int(at))
    mac = hmac.new(key.reveal().encode(), time.encode() + b"." + body, hashlib.sha256)
    return f"t={time},v1={mac.hexdigest()}"
