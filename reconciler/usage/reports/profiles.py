"""The states of the use of a bucket relative to its limit."""

from enum import StrEnum


class UsageState(StrEnum):
    """The use of a bucket on one broker relative to its limit."""

    UNUSED = "unused"  # recorded, without any use
    IDLE = "idle"  # used, never above a tenth of its limit
    USED = "used"
    NEAR_LIMIT = "near_limit"  # at nine tenths of its limit or above, and not throttled
    THROTTLED = "throttled"
    NO_DATA = "no_data"  # the broker does not record this type
