"""Fuzzing: readers refuse mutated input, a crash is reported, and input that reaches new lines is mutated further."""

import pytest

from reconciler.errors import UsageError
from tests.fuzz.fuzzer import fuzz
from tests.fuzz.readers import FuzzedReader, readers


@pytest.mark.parametrize("reader", readers(), ids=lambda reader: reader.name)
def test_no_reader_crashes_on_mutated_input(reader: FuzzedReader) -> None:
    result = fuzz(reader, seconds=600.0, seed=1, inputs=25)
    assert result.crash is None, f"{result.error}: {result.crash!r}"
    assert result.steps


def test_a_crashing_reader_is_reported_with_its_input() -> None:
    def read(content: bytes) -> None:
        if b"\xff" in content:
            raise RecursionError("too deep")
        raise UsageError("refused")

    result = fuzz(FuzzedReader("fragile", read, (b"abc",)), seconds=600.0, seed=1)
    assert result.error == "RecursionError: too deep"
    assert result.crash is not None
    assert b"\xff" in result.crash
