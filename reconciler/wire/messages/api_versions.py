"""ApiVersions (key 18), versions 0 to 5: the APIs and features that the broker offers.

A broker that does not support the requested version answers in the layout of version 0 with error 35 and,
since Kafka 2.4, the range of ApiVersions itself (KIP-511); ``decode_response`` reads this layout in any
version. Features are tagged fields (KIP-584).
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from reconciler.errors import ControllerUnavailable, DecodeError, EncodeError, UnsupportedVersion
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS, API_VERSIONS, KafkaApi
from reconciler.wire.error_codes import UNSUPPORTED_VERSION
from reconciler.wire.primitives import WireReader, WireWriter

_SUPPORTED_FEATURES: Final = 0
_FINALIZED_EPOCH: Final = 1
_FINALIZED_FEATURES: Final = 2
_ZK_MIGRATION_READY: Final = 3

UNKNOWN_EPOCH: Final = -1
UNKNOWN_NODE: Final = -1

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Texts that ``ApiVersionsRequest.isValid`` accepts; a broker answers others with error 42."""


class ApiVersionsRequest(Struct, frozen=True):
    """The client software (version 3 and later), and the node that it expects (version 5 and later, KIP-1242)."""

    software_name: str = ""  # letters, digits, `-` and `.`; "" only below version 3
    software_version: str = ""  # the same; a broker would refuse a local part such as `1.0+abc`
    cluster_id: str | None = None  # expected cluster, together with `node_id`; None for no check
    node_id: int = UNKNOWN_NODE  # expected node, -1 for no check


class ApiRange(Struct, frozen=True):
    """One API of the broker with its lowest and highest version, both inclusive."""

    api_key: int
    lowest: int
    highest: int


class Feature(Struct, frozen=True):
    """One feature with its lowest and highest level, both inclusive."""

    name: str
    lowest: int
    highest: int


class ApiVersionsResponse(Struct, frozen=True):
    """The APIs and features of a broker."""

    error_code: int
    apis: tuple[ApiRange, ...]
    throttle_time_ms: int = 0
    features: tuple[Feature, ...] = ()  # levels that this broker supports
    finalized_epoch: int = UNKNOWN_EPOCH  # -1 if unknown
    # Levels that the cluster uses; `metadata.version` among them means KRaft.
    finalized: tuple[Feature, ...] = ()
    zk_migration_ready: bool = False


def is_valid_software(text: str) -> bool:
    """Whether brokers accept ``text`` as the name or version of a client's software."""
    return _SOFTWARE.fullmatch(text) is not None


def encode_request(version: int, request: ApiVersionsRequest) -> bytes:
    """Encode the body of a request.

    Raises:
        EncodeError: Brokers would refuse the software's name or version.
    """
    writer = API_VERSIONS.writer(version)
    if version >= 3:
        for text in (request.software_name, request.software_version):
            if not is_valid_software(text):
                raise EncodeError(f"brokers refuse {text!a} as a client software name or version")
            writer.string(text)
    if version >= 5:
        writer.nullable_string(request.cluster_id)
        writer.int32(request.node_id)
    return writer.complete()


def decode_request(version: int, body: bytes) -> ApiVersionsRequest:
    """Decode a request body; its texts are not validated."""
    reader = API_VERSIONS.request_reader(version, body)
    return reader.complete(
        ApiVersionsRequest(
            software_name=reader.string() if version >= 3 else "",
            software_version=reader.string() if version >= 3 else "",
            cluster_id=reader.nullable_string() if version >= 5 else None,
            node_id=reader.int32() if version >= 5 else UNKNOWN_NODE,
        )
    )


def encode_response(version: int, response: ApiVersionsResponse) -> bytes:
    """Encode the body of a response; with error 35 it has the layout of version 0 in every version.

    Features that start at level 0 are omitted below version 4, as in brokers: older clients would
    refuse the whole response (KAFKA-17011).
    """
    layout = 0 if response.error_code == UNSUPPORTED_VERSION else version
    writer = API_VERSIONS.writer(layout)

    def write_range(api: ApiRange) -> None:
        writer.int16(api.api_key)
        writer.int16(api.lowest)
        writer.int16(api.highest)

    writer.int16(response.error_code)
    writer.structures(response.apis, write_range)
    if layout >= 1:
        writer.int32(response.throttle_time_ms)
    writer.tags(_feature_tags(version, response))
    return writer.to_bytes()


def decode_response(version: int, body: bytes) -> ApiVersionsResponse:
    """Decode a response body; a refusal in the layout of version 0 is accepted in every version."""
    is_refused = body[:2] == UNSUPPORTED_VERSION.to_bytes(2, "big")
    layout = 0 if is_refused else version
    reader = API_VERSIONS.answer_reader(layout, body)
    error_code = reader.int16()
    apis = reader.structures(
        lambda: ApiRange(api_key=reader.int16(), lowest=reader.int16(), highest=reader.int16()),
        least_size=6,
    )
    throttle_time_ms = reader.int32() if layout >= 1 else 0
    tags = reader.tags()
    reader.end()
    return ApiVersionsResponse(
        error_code=error_code,
        apis=apis,
        throttle_time_ms=throttle_time_ms,
        features=_read_features(tags.get(_SUPPORTED_FEATURES, b"\x01"), highest_first=False),
        finalized_epoch=_read_epoch(tags.get(_FINALIZED_EPOCH)),
        finalized=_read_features(tags.get(_FINALIZED_FEATURES, b"\x01"), highest_first=True),
        zk_migration_ready=_read_flag(tags.get(_ZK_MIGRATION_READY, b"\x00")),
    )


def _read_flag(content: bytes) -> bool:
    reader = WireReader(content, flexible=False)
    return reader.complete(reader.boolean())


def _feature_tags(version: int, response: ApiVersionsResponse) -> dict[int, bytes]:
    """Return the tagged fields of the response; Kafka omits fields with default values."""
    tags: dict[int, bytes] = {}
    features = tuple(feature for feature in response.features if version >= 4 or feature.lowest > 0)
    if features:
        tags[_SUPPORTED_FEATURES] = _write_features(features, highest_first=False)
    if response.finalized_epoch != UNKNOWN_EPOCH:
        epoch = WireWriter(flexible=True)
        epoch.int64(response.finalized_epoch)
        tags[_FINALIZED_EPOCH] = epoch.to_bytes()
    if response.finalized:
        tags[_FINALIZED_FEATURES] = _write_features(response.finalized, highest_first=True)
    if response.zk_migration_ready:
        tags[_ZK_MIGRATION_READY] = b"\x01"
    return tags


def _write_features(features: tuple[Feature, ...], *, highest_first: bool) -> bytes:
    """Encode a feature list; finalized features have the highest level first."""
    writer = WireWriter(flexible=True)

    def write(feature: Feature) -> None:
        writer.string(feature.name)
        writer.int16(feature.highest if highest_first else feature.lowest)
        writer.int16(feature.lowest if highest_first else feature.highest)

    writer.structures(features, write)
    return writer.to_bytes()


def _read_features(field: bytes, *, highest_first: bool) -> tuple[Feature, ...]:
    reader = WireReader(field, flexible=True, items=API_VERSIONS.answer_items)

    def read() -> Feature:
        name, first, second = reader.string(), reader.int16(), reader.int16()
        lowest, highest = (second, first) if highest_first else (first, second)
        return Feature(name=name, lowest=lowest, highest=highest)

    features = reader.structures(read, least_size=6)
    reader.end()
    return features


def _read_epoch(field: bytes | None) -> int:
    if field is None:
        return UNKNOWN_EPOCH
    if len(field) != 8:
        raise DecodeError(f"the finalized features epoch has {len(field)} bytes, not 8")
    return WireReader(field, flexible=True).int64()


_KRAFT_FEATURE: Final = "metadata.version"


class OfferedVersions(Struct, frozen=True, kw_only=True):
    """The versions that one broker offers, per connection: brokers of one cluster may differ."""

    ranges: Mapping[int, tuple[int, int]]  # lowest and highest version by API key, both inclusive
    # True if the finalized features show a KRaft cluster (or one migrating to it).
    is_kraft: bool = False

    def offers(self, api: KafkaApi) -> bool:
        """Whether ``choose`` would return a version."""
        lowest, highest = self.ranges.get(api.key, (0, -1))
        return max(lowest, api.floor) <= min(highest, api.highest)


def read_offered(answer: ApiVersionsResponse) -> OfferedVersions:
    """Return the versions in a response to ApiVersions."""
    return OfferedVersions(
        ranges={
            api_range.api_key: (api_range.lowest, api_range.highest) for api_range in answer.apis
        },
        is_kraft=any(feature.name == _KRAFT_FEATURE for feature in answer.finalized),
    )


def choose(api: KafkaApi, offered: OfferedVersions) -> int:
    """Return the highest version of ``api`` that both client and broker support.

    Raises:
        ControllerUnavailable: A KRaft broker omits AlterClientQuotas: it offers an API that it
            forwards only in versions that the active controller supports, too
            (``ApiVersionsResponse.intersectForwardableApis``), so it is offered again once a controller is active.
        UnsupportedVersion: There is none for another reason.
    """
    if offered.offers(api):
        return min(offered.ranges[api.key][1], api.highest)
    supported_text = (
        f"v{api.floor}" if api.floor == api.highest else f"v{api.floor} to v{api.highest}"
    )
    if api.key in offered.ranges:
        lowest, highest = offered.ranges[api.key]
        raise UnsupportedVersion(
            f"the broker offers {api.name} v{lowest} to v{highest}, this client supports {supported_text}",
            api=api.name,
        )
    if api.key == ALTER_CLIENT_QUOTAS.key and offered.is_kraft:
        raise ControllerUnavailable(
            f"broker offers no {api.name}: its controller is unavailable or too old",
            api=api.name,
            hint="try again when the cluster has an active controller",
        )
    needs = f" (needs Kafka {api.since})" if api.since else ""
    raise UnsupportedVersion(f"broker offers no {api.name}{needs}", api=api.name)


def retry_after_refusal(answer: ApiVersionsResponse) -> int:
    """Return the version of ApiVersions to request after a broker refused with error 35.

    Brokers since Kafka 2.4 include their range in the refusal; older ones do not, and support version 0.
    """
    for offer in answer.apis:
        if offer.api_key == API_VERSIONS.key:
            return max(0, min(offer.highest, API_VERSIONS.highest))
    return 0
