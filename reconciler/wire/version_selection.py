"""Selects the version of an API: the highest that both client and broker support."""

from collections.abc import Mapping
from typing import Final

import msgspec

from reconciler.errors import ControllerUnavailable, UnsupportedVersion
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS, API_VERSIONS, KafkaApi
from reconciler.wire.messages.api_versions import ApiVersionsResponse

_KRAFT_FEATURE: Final = "metadata.version"


class OfferedVersions(msgspec.Struct, frozen=True, kw_only=True):
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
