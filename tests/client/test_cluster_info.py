"""The Kafka version that a broker's ApiVersions response indicates."""

import pytest

from reconciler.client import cluster_info
from reconciler.wire.messages.api_versions import OfferedVersions


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ({18: (0, 5), 3: (0, 13)}, ("4.4+", "4.x")),
        ({18: (0, 4), 3: (0, 13), 88: (0, 0)}, ("4.1+", "4.x")),
        ({18: (0, 4), 3: (0, 13)}, ("4.0+", "4.x")),
        ({18: (0, 4), 3: (0, 12), 60: (0, 1), 50: (0, 0)}, ("3.9+", "3.9")),
        ({18: (0, 3), 3: (0, 12), 60: (0, 1), 50: (0, 0)}, ("3.7+", "3.9")),
        ({18: (0, 3), 3: (0, 12), 60: (0, 0), 50: (0, 0)}, ("3.5+", "3.9")),
        ({18: (0, 3), 3: (0, 12), 60: (0, 0)}, ("3.1+", "3.4")),
        ({18: (0, 3), 3: (0, 11), 60: (0, 0)}, ("2.8+", "3.4")),
        ({18: (0, 3), 3: (0, 9)}, ("2.6+", "3.4")),
    ],
)
def test_the_version_line_of_kafka_is_inferred_from_the_offered_api_versions(
    ranges: dict[int, tuple[int, int]], expected: tuple[str, str]
) -> None:
    assert cluster_info.release_line(OfferedVersions(ranges=ranges)) == expected
