"""Profiles of versions differ only as the protocol allows."""

from itertools import combinations

import pytest
from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.sandbox import NEWEST, PROFILES, profile_named


def test_no_two_version_lines_offer_the_same_api_versions() -> None:
    for first, second in combinations(PROFILES.values(), 2):
        assert first.versions != second.versions


def test_an_unknown_version_line_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as refused:
        profile_named("5.0")
    assert refused.value.hint == "choose one of 3.4, 3.9, 4.3, 4.x, redpanda"


def test_a_version_line_offers_only_versions_that_kquota_can_decode() -> None:
    with pytest.raises(ValueError, match="not on the wire"):
        replace(NEWEST, versions={48: (0, 2)})


def test_redpanda_has_prefixes_of_client_ids_three_keys_and_no_address() -> None:
    redpanda = profile_named("redpanda")
    assert redpanda.entity_types == ("user", "client-id", "client-id-prefix")
    assert redpanda.client_keys == {
        "producer_byte_rate",
        "consumer_byte_rate",
        "controller_mutation_rate",
    }
