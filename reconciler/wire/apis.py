"""The supported APIs in one table: Kafka's numbers, and the versions that the message modules implement.

Source: the message definitions of Kafka 4.4.0 (``clients/src/main/resources/common/message``).

The table also limits the size of each response. The frame size alone does not limit memory:
the smallest items have 3 to 10 bytes on the wire and 100 to 500 in memory.
"""

from functools import partial
from typing import Final

from msgspec import Struct

from reconciler.wire.primitives import WireReader, WireWriter

MAX_ENTITIES: Final = 300_000
"""Default limit of entities in one response. A process needs about 150 MB for as many;
the largest clusters that this client is measured with have 100,000.
"""

GREETING_BYTES: Final = 1024 * 1024
"""Largest response, in bytes, before the peer has proved to be a broker and the client is authenticated.
Kafka itself limits SASL tokens to 512 KiB.
"""

CLUSTER_BYTES: Final = 4 * 1024 * 1024
"""Largest response, in bytes, about the brokers of a cluster or the configuration of one."""

CLUSTER_ITEMS: Final = 20_000
"""Maximum items of such a response, and of responses before authentication: thousands of brokers or settings."""


class KafkaApi(Struct, frozen=True, kw_only=True):
    """One API: its number and name, the versions that its module implements, and its limits."""

    key: int  # number in the request header
    name: str
    lowest: int  # first version that the module implements
    highest: int  # last version that the module implements
    # First version that this client uses; older ones serve only other clients of the sandbox.
    floor: int
    # First version with compact lengths and tagged fields; None means never.
    flexible_from: int | None
    since: str  # Kafka release that first offered it at `floor`; "" = not known
    # First version whose response begins with `throttle_time_ms`; None if it is at another position or absent.
    throttled_from: int | None = 0
    # Largest response accepted; None if only the limit of the connection applies.
    answer_bytes: int | None = None
    answer_items: int = MAX_ENTITIES  # maximum items of all arrays of one response together

    def __post_init__(self) -> None:
        if not 0 <= self.lowest <= self.floor <= self.highest:
            raise ValueError(f"{self.name}: versions must rise from lowest over floor to highest")

    def is_flexible(self, version: int) -> bool:
        """Whether ``version`` uses compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from

    def writer(self, version: int) -> WireWriter:
        """Return a writer of one message body."""
        return WireWriter(flexible=self.is_flexible(version))

    def request_reader(self, version: int, body: bytes) -> WireReader:
        """Return a reader of the body of a request."""
        return WireReader(body, flexible=self.is_flexible(version))

    def answer_reader(self, version: int, body: bytes) -> WireReader:
        """Return a reader of the body of a response, which has at most as many items as the API allows."""
        return WireReader(body, flexible=self.is_flexible(version), items=self.answer_items)

    def begins_with_throttle(self, version: int) -> bool:
        """Whether the body of a response begins with ``throttle_time_ms``."""
        return self.throttled_from is not None and version >= self.throttled_from


_CLUSTER_API: Final = partial(KafkaApi, answer_bytes=CLUSTER_BYTES, answer_items=CLUSTER_ITEMS)
_GREETING_API: Final = partial(
    KafkaApi, throttled_from=None, answer_bytes=GREETING_BYTES, answer_items=CLUSTER_ITEMS
)
"""For APIs about the brokers of a cluster, and for those before the client is authenticated."""

METADATA: Final = _CLUSTER_API(
    key=3,
    name="Metadata",
    lowest=0,
    highest=13,
    floor=9,
    flexible_from=9,
    since="2.4",
    throttled_from=3,
)
# Version 0 of SaslHandshake would be followed by tokens without frames. Never flexible: the version cannot be raised
# without breaking older brokers (KAFKA-9577).
SASL_HANDSHAKE: Final = _GREETING_API(
    key=17, name="SaslHandshake", lowest=0, highest=1, floor=1, flexible_from=None, since="1.0"
)
API_VERSIONS: Final = _GREETING_API(
    key=18, name="ApiVersions", lowest=0, highest=5, floor=0, flexible_from=3, since="0.10"
)
DESCRIBE_CONFIGS: Final = _CLUSTER_API(
    key=32, name="DescribeConfigs", lowest=1, highest=4, floor=1, flexible_from=4, since="1.1"
)
SASL_AUTHENTICATE: Final = _GREETING_API(
    key=36, name="SaslAuthenticate", lowest=0, highest=2, floor=0, flexible_from=2, since="1.0"
)
DESCRIBE_CLIENT_QUOTAS: Final = KafkaApi(
    key=48, name="DescribeClientQuotas", lowest=0, highest=1, floor=0, flexible_from=1, since="2.6"
)
ALTER_CLIENT_QUOTAS: Final = KafkaApi(
    key=49, name="AlterClientQuotas", lowest=0, highest=1, floor=0, flexible_from=1, since="2.6"
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = KafkaApi(
    key=50,
    name="DescribeUserScramCredentials",
    lowest=0,
    highest=0,
    floor=0,
    flexible_from=0,
    since="2.7",
)
DESCRIBE_CLUSTER: Final = _CLUSTER_API(
    key=60, name="DescribeCluster", lowest=0, highest=2, floor=0, flexible_from=0, since="2.8"
)

APIS: Final = tuple(api for api in tuple(globals().values()) if isinstance(api, KafkaApi))
"""All supported APIs, by ascending number."""

BY_KEY: Final = {api.key: api for api in APIS}
