import pytest

from reconciler.errors import ControllerUnavailable, UnsupportedVersion
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS, API_VERSIONS, METADATA, SASL_HANDSHAKE
from reconciler.wire.messages.api_versions import (
    ApiRange,
    ApiVersionsResponse,
    Feature,
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


def test_a_single_version_is_named_alone() -> None:
    with pytest.raises(UnsupportedVersion, match=r"this client supports v1$"):
        choose(SASL_HANDSHAKE, read_offered(answer((17, 0, 0))))


def test_a_missing_alter_on_kraft_means_that_the_controller_is_unavailable() -> None:
    with pytest.raises(ControllerUnavailable, match="controller is unavailable") as caught:
        choose(ALTER_CLIENT_QUOTAS, read_offered(answer((48, 0, 1), finalized=KRAFT)))
    assert caught.value.retriable


def test_a_missing_alter_elsewhere_means_an_old_broker() -> None:
    with pytest.raises(UnsupportedVersion, match=r"needs Kafka 2\.6") as caught:
        choose(ALTER_CLIENT_QUOTAS, read_offered(answer((3, 0, 8))))
    assert not caught.value.retriable


@pytest.mark.parametrize(
    ("ranges", "version"),
    [([(18, 0, 4)], 4), ([(3, 0, 9), (18, 0, 99)], 5), ([], 0), ([(18, 0, -1)], 0)],
)
def test_after_a_rejection_the_range_of_the_broker_is_used(
    ranges: list[tuple[int, int, int]], version: int
) -> None:
    assert retry_after_refusal(answer(*ranges)) == version
    assert API_VERSIONS.highest == 5
