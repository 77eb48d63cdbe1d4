"""The sandbox's pure rules against Kafka's own classes, on random invalid requests.

`ClientQuotaControlManager` and `ClientQuotasImage` of each release process the same requests as `rules` and `filters`,
one after the other on the same growing state.
"""

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.sandbox import PROFILES
from reconciler.sandbox.broker_rules import alterations as rules
from reconciler.sandbox.broker_rules import describe_filters
from reconciler.sandbox.broker_rules.image import EMPTY, Image
from reconciler.wire.messages.alter_client_quotas import Alteration
from tests.contract.filter_expectations import FILTERS, MATCHED
from tests.contract.raw import by_entity, text_of
from tests.servers.oracle.rules import BatchRefused, RulesOracle

pytestmark = pytest.mark.integration

VERSIONS = {"3.4.1": "3.4", "3.9.1": "3.9", "4.4.0": "4.x"}
KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "unheard_of",
    "",
    "zz",
    "yy",
)
NAMES = ("a", "b", "", "<default>", "\u00e9\U0001f389", None)
ADDRESSES = ("10.0.0.1", "::1", "10.1", "nope/8", "", None)
VALUES = (
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    -1.0,
    1e-7,
    -1e-7,
    0.5,
    0.999999,
    0.9999995,
    1.0,
    1.000001,
    1.0000015,
    2.0**31 - 1,
    2.0**31,
    2.0**53 + 2,
    2.0**63,
    2.0**64,
)

part = st.one_of(
    st.tuples(st.sampled_from(("user", "client-id")), st.sampled_from(NAMES)),
    st.tuples(st.just("ip"), st.sampled_from(ADDRESSES)),
    st.tuples(st.sampled_from(("group", "", "User")), st.sampled_from(NAMES)),
)
operation = st.tuples(
    st.sampled_from(KEYS),
    st.one_of(
        st.none(),
        st.sampled_from(VALUES),
        st.floats(width=64),
        st.floats(min_value=-3, max_value=1e6),
    ),
)
alterations = st.lists(
    st.tuples(st.lists(part, max_size=3).map(tuple), st.lists(operation, max_size=4).map(tuple)),
    max_size=4,
)
component = st.tuples(
    st.sampled_from(("user", "client-id", "ip", "group", "")),
    st.sampled_from((0, 0, 1, 2, 2, 3)),
    st.sampled_from((None, None, "u1", "c1", "10.0.0.1", "<default>", "")),
)


@pytest.fixture(scope="module", params=VERSIONS)
def oracle(request: pytest.FixtureRequest) -> Iterator[tuple[RulesOracle, str]]:
    with RulesOracle(request.param) as running:
        yield running, VERSIONS[request.param]


def commit(
    image: Image, requested_alterations: list[Alteration], line: str
) -> tuple[Image, dict[object, object]]:
    verdicts = rules.alter(
        PROFILES[line], image, requested_alterations, resolvable=frozenset(), validate_only=False
    )
    assert verdicts.request_failure is None
    results = {
        names: (0, None) if failure is None else (failure.code, failure.message)
        for names, failure in verdicts.results.items()
    }
    return image.applied(verdicts.records), results


@given(requests=st.lists(alterations, min_size=1, max_size=4))
def test_the_rules_give_the_messages_and_states_of_the_controller(
    oracle: tuple[RulesOracle, str], requests: list[list[Alteration]]
) -> None:
    java, line = oracle
    java.reset()
    image = EMPTY
    for request in requests:
        answers = java.alter(request)
        image, results = commit(image, request, line)
        assert results == by_entity(
            [(answer.entity, answer.error, answer.message) for answer in answers]
        )
        quotas = {names: dict(values) for names, values in image.values.items()}
        assert text_of(quotas) == text_of(java.describe().quotas)


def test_every_value_of_every_key_has_the_same_verdict(oracle: tuple[RulesOracle, str]) -> None:
    java, line = oracle
    java.reset()
    request = [
        ((("ip", f"10.0.{place}.{of}"),) if ip else (("user", f"{place}-{of}"),), ((key, value),))
        for of, key in enumerate(KEYS)
        for place, value in enumerate(VALUES)
        for ip in (True, False)
    ]
    answers = java.alter(request)
    _, results = commit(EMPTY, request, line)
    assert results == by_entity(
        [(answer.entity, answer.error, answer.message) for answer in answers]
    )


@given(filters_=st.lists(st.tuples(st.lists(component, max_size=3), st.booleans()), min_size=5))
def test_the_filters_select_the_same_as_the_metadata_image(
    oracle: tuple[RulesOracle, str], filters_: list[tuple[list[tuple[str, int, str | None]], bool]]
) -> None:
    java, line = oracle
    java.reset()
    request = [(names, tuple(values.items())) for names, values in MATCHED.items()]
    java.alter(request)
    image, _ = commit(EMPTY, request, line)
    for components, strict in [*filters_, *FILTERS]:
        expected = java.describe(components, strict=strict)
        failure = describe_filters.check(components)
        assert (expected.code, expected.message or None) == (
            (0, None) if failure is None else (failure.code, failure.message)
        )
        if failure is None:
            entries = describe_filters.matching(image, components, strict=strict)
            assert text_of({n: dict(v) for n, v in entries}) == text_of(expected.quotas)


def test_both_reject_the_same_request_size(oracle: tuple[RulesOracle, str]) -> None:
    java, line = oracle
    java.reset()
    request = [((("user", f"u{n}"),), (("producer_byte_rate", 1.0),)) for n in range(10_001)]
    verdicts = rules.alter(PROFILES[line], EMPTY, request, resolvable=(), validate_only=True)
    if PROFILES[line].records_in_validation:
        assert verdicts.request_failure == rules.TOO_MANY
        with pytest.raises(BatchRefused):
            java.alter(request, validate_only=True)
    else:
        assert verdicts.request_failure is None
        assert {answer.error for answer in java.alter(request, validate_only=True)} == {0}
