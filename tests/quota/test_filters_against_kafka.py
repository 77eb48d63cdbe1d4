"""The filters against Kafka's own metadata image, old and indexed: every combination of matches on all ten forms."""

import itertools
from collections.abc import Iterator

import pytest

from reconciler.quota.entity import DEFAULT, ENTITY_TYPES, Entity, entity, parts
from reconciler.quota.filters import ANY, Component, Filter, Match
from tests.quota.strategies import ENTITIES
from tests.servers.oracle.rules import RulesOracle

pytestmark = pytest.mark.integration

# An image never holds empty names: the controller refuses them.
LIVE = [subject for subject in ENTITIES if "" not in subject]
MATCHES: dict[str, tuple[Match, ...]] = {
    "user": (ANY, DEFAULT, "alice", "<default>", "nobody"),
    "client-id": (ANY, DEFAULT, "app", "<default>", "nobody"),
    "ip": (ANY, DEFAULT, "10.0.0.1", "nobody"),
}


@pytest.fixture(scope="module", params=["3.9.1", "4.3.1", "4.4.0"])
def oracle(request: pytest.FixtureRequest) -> Iterator[RulesOracle]:
    with RulesOracle(request.param) as running:
        key = {False: "request_percentage", True: "connection_creation_rate"}
        running.load({raw(subject): {key[subject[2] is not False]: 1.0} for subject in LIVE})
        yield running


def raw(subject: Entity) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(parts(subject)))


def filters() -> Iterator[Filter]:
    """Every combination that a broker accepts: ip occurs alone."""
    for types in ((), ("user",), ("client-id",), ("ip",), ("user", "client-id")):
        for matches in itertools.product(*(MATCHES[kind] for kind in types)):
            for strict in (False, True):
                yield Filter(
                    components=tuple(
                        Component(entity_type=kind, match=match)
                        for kind, match in zip(types, matches, strict=True)
                    ),
                    strict=strict,
                )


def components(expected_filter: Filter) -> list[tuple[str, int, str | None]]:
    return [
        (component.entity_type, 2, None)
        if component.match is ANY
        else (component.entity_type, 1, None)
        if component.match is None
        else (component.entity_type, 0, str(component.match))
        for component in expected_filter.components
    ]


def test_every_filter_selects_the_same_entities_as_kafka(oracle):
    assert set(MATCHES) == set(ENTITY_TYPES)
    match_count = 0
    for expected_filter in filters():
        answer = oracle.describe(components(expected_filter), strict=expected_filter.strict)
        assert answer.code == 0
        assert {raw(subject) for subject in LIVE if expected_filter.matches(subject)} == set(
            answer.quotas
        ), expected_filter
        match_count += len(answer.quotas)
    assert match_count > len(LIVE)


def test_the_literal_name_is_loaded_beside_the_default(oracle):
    everything = oracle.describe().quotas
    assert raw(entity(user="<default>")) in everything
    assert raw(entity(user=DEFAULT)) in everything
