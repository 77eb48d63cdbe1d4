"""The describe response: laws against the reference reader. Rows of the malformed-input table are in
test_malformed_input."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import DecodeError
from reconciler.wire.messages import describe_client_quotas
from reconciler.wire.messages.describe_client_quotas import EntryLayout
from tests.wire import reference, samples

versions = st.sampled_from([0, 1])
layouts = st.sampled_from([samples.LAYOUT, samples.OTHER_LAYOUT])


def compare(version: int, body: bytes, layout: EntryLayout) -> bool:
    """True if both readers accept, False if both refuse; anything else fails."""
    try:
        answer = reference.decode(version, body)
    except (ValueError, struct.error):
        with pytest.raises(DecodeError):
            describe_client_quotas.decode_response(version, body, layout)
        return False
    described = describe_client_quotas.decode_response(version, body, layout)
    expected = reference.lay_out(answer, layout.slots, layout.columns)
    assert reference.described_values(described) == expected
    return True


@given(versions, samples.answers(), layouts, st.integers(-1, 2**31 - 1))
def test_a_response_is_decoded_as_by_the_reference(
    version: int, entries: list[describe_client_quotas.Entry], layout: EntryLayout, throttle: int
) -> None:
    body = describe_client_quotas.encode_response(
        version, entries=entries, throttle_time_ms=throttle
    )
    assert compare(version, body, layout)


def mutations(frame: bytes, at: int) -> list[bytes]:
    """``frame`` truncated, changed, shortened, lengthened and swapped at one offset."""
    before, octet, after = frame[:at], frame[at : at + 1], frame[at + 1 :]
    changed = [before + bytes((new,)) + after for new in (0, 1, 0x7F, 0x80, 0xFF)]
    inserted = [before + bytes((new,)) + octet + after for new in (0, 1, 0x80)]
    return [*changed, *inserted, before, before + after, before + after[:1] + octet + after[1:]]


STEADY = [
    (
        (("user", "alice"), ("client-id", "a")),
        (("producer_byte_rate", 1.0), ("request_percentage", 2.0)),
    ),
    (
        (("user", "bob"), ("client-id", None)),
        (("producer_byte_rate", 3.0), ("request_percentage", 4.0)),
    ),
    (
        (("user", "zoë"), ("client-id", "c")),
        (("producer_byte_rate", 5.0), ("request_percentage", 6.0)),
    ),
    (
        (("user", "dan"), ("client-id", "d")),
        (("producer_byte_rate", 5.0), ("request_percentage", 6.0)),
    ),
]
MIXED = [
    ((("ip", "10.0.0.1"),), (("connection_creation_rate", 5.0),)),
    ((("user", "x" * 130),), ()),
    ((("group", "g"), ("user", None)), (("future_rate", 1.0),)),
    ((("client-id", ""), ("user", "u")), (("request_percentage", 0.5), ("y", 1.0))),
]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("entries", [STEADY, MIXED], ids=["steady", "mixed"])
def test_every_mutation_at_every_offset_has_the_result_of_the_reference(
    version: int, entries: list[describe_client_quotas.Entry]
) -> None:
    frame = describe_client_quotas.encode_response(version, entries=entries)
    verdicts = {True: 0, False: 0}
    for at in range(len(frame)):
        for mutant in mutations(frame, at):
            verdicts[compare(version, mutant, samples.LAYOUT)] += 1
    assert min(verdicts.values()) > 100


@given(samples.answers(), st.integers(0, 2**32), layouts)
def test_random_damage_has_the_result_of_the_reference(
    entries: list[describe_client_quotas.Entry], seed: int, layout: EntryLayout
) -> None:
    chance = random.Random(seed)
    frame = describe_client_quotas.encode_response(1, entries=entries)
    for _ in range(20):
        mutant = bytearray(frame)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(mutant))
            mutant[at] = chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        compare(1, bytes(mutant), layout)
