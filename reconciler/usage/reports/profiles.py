"""How a bucket stands to its limit, in one word."""

from enum import StrEnum


class UsageState(StrEnum):
    """How a bucket stands to its limit on one broker."""

    UNUSED = "unused"  # a limit, a broker that counts, and no use
    IDLE = "idle"  # used, and never above a tenth of its limit
    USED = "used"
    NEAR_LIMIT = "near_limit"  # at nine tenths of its limit or above, and not seen throttled
    THROTTLED = "throttled"
    NO_DATA = "no_data"  # the broker does not count this at all
