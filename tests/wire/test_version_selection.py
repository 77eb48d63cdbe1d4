import pytest

from reconciler.errors import ControllerUnavailable, UnsupportedVersion
from reconciler.wire.apis import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    METADATA,
    SASL_HANDSHAKE,
)
from reconciler.wire.messages.api_versions import (
    ApiRange,
    ApiVersionsResponse,
    Feature,
    OfferedVersions,
    choose,
    read_offered,
    retry_after_refusal,
)


def answer(
    *ranges: tuple[int, int, int], finalized: tuple[Feature, ...] = ()
) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=0,
        apis=tuple(ApiRange(api_key=key, lowest=low, highest=high) for key, low, high in ranges),
        finalized=finalized,
    )


KRAFT = (Feature(name="metadata.version", lowest=25, highest=25),)


@pytest.mark.parametrize(
    ("offered", "number"), [((0, 99), 13), ((0, 11), 11), ((9, 9), 9), ((13, 20), 13)]
)
def test_the_highest_common_version_is_selected(offered: tuple[int, int], number: int) -> None:
    assert choose(METADATA, read_offered(answer((3, *offered)))) == number


@pytest.mark.parametrize("offered", [(0, 8), (14, 20)])
def test_ranges_without_a_common_version_are_an_error_with_both(offered: tuple[int, int]) -> None:
    words = rf"Metadata v{offered[0]} to v{offered[1]}, this client supports v9 to v13"
    with pytest.raises(UnsupportedVersion, match=words) as caught:
        choose(METADATA, read_offered(answer((3, *offered))))
    assert caught.value.api == "Metadata"


def test_a_single_version_is_named_alone() -> None:
    with pytest.raises(UnsupportedVersion, match=r"this client supports v1$"):
        choose(SASL_HANDSHAKE, read_offered(answer((17, 0, 0))))


def test_a_broker_without_quotas_is_reported_with_the_required_kafka_release() -> None:
    words = r"broker offers no DescribeClientQuotas \(needs Kafka 2\.6\)"
    with pytest.raises(UnsupportedVersion, match=words):
        choose(DESCRIBE_CLIENT_QUOTAS, read_offered(answer((3, 0, 8))))


def test_a_missing_alter_on_kraft_means_that_the_controller_is_unavailable() -> None:
    with pytest.raises(ControllerUnavailable, match="controller is unavailable") as caught:
        choose(ALTER_CLIENT_QUOTAS, read_offered(answer((48, 0, 1), finalized=KRAFT)))
    assert caught.value.retriable


def test_a_missing_alter_elsewhere_means_an_old_broker() -> None:
    with pytest.raises(UnsupportedVersion, match=r"needs Kafka 2\.6") as caught:
        choose(ALTER_CLIENT_QUOTAS, read_offered(answer((3, 0, 8))))
    assert not caught.value.retriable


def test_offered_versions_are_returned_without_an_error() -> None:
    offered = OfferedVersions(ranges={60: (0, 1)})
    assert offered.offers(DESCRIBE_CLUSTER)
    assert not offered.offers(METADATA)
    assert not offered.is_kraft
    assert read_offered(answer(finalized=KRAFT)).is_kraft


@pytest.mark.parametrize(
    ("ranges", "version"),
    [([(18, 0, 4)], 4), ([(3, 0, 9), (18, 0, 99)], 5), ([], 0), ([(18, 0, -1)], 0)],
)
def test_after_a_rejection_the_range_of_the_broker_is_used(
    ranges: list[tuple[int, int, int]], version: int
) -> None:
    assert retry_after_refusal(answer(*ranges)) == version
    assert API_VERSIONS.highest == 5
