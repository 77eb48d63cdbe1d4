import pytest

from reconciler.wire.apis import (
    APIS,
    BY_KEY,
    KafkaApi,
)


def test_apis_are_listed_once_by_ascending_key() -> None:
    keys = [api.key for api in APIS]
    assert keys == sorted(set(keys)) == list(BY_KEY)


def test_versions_must_be_ascending() -> None:
    with pytest.raises(ValueError, match="X: versions must rise"):
        KafkaApi(key=1, name="X", lowest=2, highest=1, floor=2, flexible_from=None, since="1.0")
