from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import DecodeError, EncodeError
from reconciler.wire.messages import alter_client_quotas
from reconciler.wire.messages.alter_client_quotas import Alteration
from tests.wire import samples

versions = st.sampled_from([0, 1])
operations = st.lists(
    st.tuples(samples.keys, st.one_of(st.none(), st.floats(allow_nan=False))), max_size=5
).map(tuple)
entities = st.one_of(samples.parts(), st.just(()))
alterations = st.lists(st.tuples(entities, operations), min_size=1, max_size=6).map(tuple)

ALICE: Alteration = ((("user", "alice"),), (("producer_byte_rate", 1024.0),))


@given(versions, alterations)
def test_entries_can_be_split_into_requests_at_any_place(
    version: int, requested_alterations: tuple[Alteration, ...]
) -> None:
    entries = alter_client_quotas.encode_entries(version, requested_alterations)
    assert len(entries) == len(requested_alterations)
    for entry, alteration in zip(entries, requested_alterations, strict=True):
        body = alter_client_quotas.join_entries(version, [entry], validate_only=False)
        assert alter_client_quotas.decode_request(version, body).alterations == (alteration,)
    request = alter_client_quotas.join_entries(version, entries, validate_only=True)
    assert request == alter_client_quotas.encode_request(
        version, requested_alterations, validate_only=True
    )


def is_decoded_success(version: int, body: bytes, requested: Sequence[Alteration]) -> bool:
    """Whether a response, fully decoded, has no error for each of these entities."""
    try:
        answer = alter_client_quotas.decode_response(version, body)
    except DecodeError:
        return False
    expected = [(tuple(sorted(parts)), 0, None) for parts, _ in requested]
    return len(answer.results) == len(expected) and set(answer.results) == set(expected)


requests = st.lists(
    st.tuples(samples.parts(), operations), min_size=1, max_size=6, unique_by=lambda item: item[0]
)


@given(versions, requests, st.data())
def test_what_is_taken_for_a_success_is_decoded_as_one_also_if_the_answer_is_damaged(
    version: int, requested: list[Alteration], data: st.DataObject
) -> None:
    entries = alter_client_quotas.encode_entries(version, requested)
    entities = st.sampled_from([parts for parts, _ in requested])
    answered = data.draw(
        st.one_of(
            st.permutations([(parts, 0, None) for parts, _ in requested]),
            st.lists(
                st.tuples(entities, st.sampled_from([0, 42]), st.sampled_from([None, "", "no"]))
            ),
        )
    )
    body = bytearray(alter_client_quotas.encode_response(version, results=answered))
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, len(body)))
    body[start:end] = data.draw(st.one_of(st.just(body[start:end]), st.binary(max_size=4)))
    if alter_client_quotas.is_plain_success(version, bytes(body), entries):
        assert is_decoded_success(version, bytes(body), requested)


@pytest.mark.parametrize("version", [0, 1])
def test_a_name_that_looks_like_the_bytes_between_two_results_only_needs_decoding(
    version: int,
) -> None:
    requested = [((("user", name),), ALICE[1]) for name in ("a", "b\0\0\0\0\0c")]
    entries = alter_client_quotas.encode_entries(version, requested)
    results = [(parts, 0, None) for parts, _ in requested]
    body = alter_client_quotas.encode_response(version, results=results)
    assert is_decoded_success(version, body, requested)
    assert alter_client_quotas.is_plain_success(version, body, entries) == (version == 0)


def test_an_empty_request_is_rejected() -> None:
    with pytest.raises(EncodeError, match="without entries"):
        alter_client_quotas.encode_request(1, [], validate_only=False)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "alteration",
    [
        ((("user", "x" * 32768),), (("a", 1.0),)),
        ((("x" * 32768, "u"),), (("a", 1.0),)),
        ((("user", "u"),), (("x" * 32768, 1.0),)),
        ((("user", "é" * 16384),), ()),
    ],
)
def test_a_string_beyond_kafkas_limit_is_rejected(version: int, alteration: Alteration) -> None:
    with pytest.raises(EncodeError, match="32768 bytes cannot be sent"):
        alter_client_quotas.encode_entries(version, [ALICE, alteration])


def test_a_lone_surrogate_is_rejected() -> None:
    with pytest.raises(EncodeError, match=r"'a\\ud800' cannot be written as UTF-8"):
        alter_client_quotas.encode_entries(1, [((("user", "a\ud800"),), (("x", 1.0),))])


@pytest.mark.parametrize("version", [0, 1])
def test_every_truncation_of_request_and_response_is_refused(version: int) -> None:
    request = alter_client_quotas.encode_request(version, [ALICE, ALICE], validate_only=True)
    answer = alter_client_quotas.encode_response(
        version, results=[(ALICE[0], 42, "no"), (ALICE[0], 0, None)]
    )
    for size in range(len(request)):
        with pytest.raises(DecodeError):
            alter_client_quotas.decode_request(version, request[:size])
    for size in range(len(answer)):
        with pytest.raises(DecodeError):
            alter_client_quotas.decode_response(version, answer[:size])
    for body in (request + b"\x00", answer + b"\x00"):
        with pytest.raises(DecodeError):
            alter_client_quotas.decode_request(version, body)
