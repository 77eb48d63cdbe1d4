import pytest

from reconciler.wire.apis import (
    API_VERSIONS,
    APIS,
    BY_KEY,
    DESCRIBE_CLIENT_QUOTAS,
    METADATA,
    SASL_HANDSHAKE,
    KafkaApi,
)


def test_apis_are_listed_once_by_ascending_key() -> None:
    keys = [api.key for api in APIS]
    assert keys == sorted(set(keys)) == list(BY_KEY)


def test_flexible_versions_begin_as_in_kafka() -> None:
    assert [METADATA.is_flexible(version) for version in (8, 9)] == [False, True]
    assert not SASL_HANDSHAKE.is_flexible(1)


def test_responses_begin_with_a_throttle_time_as_in_kafka() -> None:
    assert [METADATA.begins_with_throttle(version) for version in (2, 3)] == [False, True]
    assert DESCRIBE_CLIENT_QUOTAS.begins_with_throttle(0)
    assert not API_VERSIONS.begins_with_throttle(3)


def test_versions_must_be_ascending() -> None:
    with pytest.raises(ValueError, match="X: versions must rise"):
        KafkaApi(key=1, name="X", lowest=2, highest=1, floor=2, flexible_from=None, since="1.0")
