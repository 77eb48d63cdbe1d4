"""The fuzzer: mutates input; a mutation that reaches new transitions between lines is mutated further."""

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from reconciler.errors import KquotaError
from tests.fuzz.readers import FuzzedReader

LONGEST = 4_096
"""Maximum bytes of an input: longer ones find nothing more, and take longer."""

WORDS = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80",
    b"\xff\xff\xff\xff\x0f",
    b": ",
    b"\n",
    b"- ",
    b"{",
    b"}",
    b'"',
    b"&a ",
    b"*a",
    b"!!",
    b"\\u0000",
    b"1e999",
    b"null",
    b"-1",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
)

Step = tuple[str, int, int]
"""A file, a line of it, and the line after it."""


@dataclass(frozen=True, slots=True)
class FuzzResult:
    """The result for one reader."""

    reader: str  # its name
    inputs: int  # number of inputs
    steps: int  # number of reached transitions between lines
    crash: bytes | None = None  # an input that raised an unexpected error; None = there is none
    error: str = ""


@dataclass(slots=True)
class _Trace:
    """The transitions between lines of one call, in the project's own files."""

    steps: set[Step] = field(default_factory=set)

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Callable[..., Any] | None":
        del event
        name = frame.f_code.co_filename
        if "/reconciler/" not in name:
            return None
        last = frame.f_lineno

        def lines(inner: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                self.steps.add((name, last, inner.f_lineno))
                last = inner.f_lineno
            del argument
            return lines

        return lines


def mutated(chance: random.Random, content: bytes, corpus: list[bytes]) -> bytes:
    """The input with a few changes."""
    changed = bytearray(content[:LONGEST])
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randint(0, len(changed))
        match chance.randrange(6):
            case 0 if changed:
                changed[at % len(changed)] = chance.randrange(256)
            case 1 if changed:
                changed[at % len(changed)] ^= 1 << chance.randrange(8)
            case 2:
                changed[at:at] = chance.choice(WORDS)
            case 3:
                del changed[at : at + chance.randint(1, 16)]
            case 4:
                donor = chance.choice(corpus)
                begin = chance.randint(0, len(donor))
                changed[at:at] = donor[begin : begin + chance.randint(1, 64)]
            case _:
                changed[at:at] = changed[at : at + chance.randint(1, 64)]
    return bytes(changed[:LONGEST])


def fuzz(reader: FuzzedReader, *, seconds: float, seed: int, inputs: int = 10**9) -> FuzzResult:
    """Read mutated input until the time or the number of inputs is used up, or an input crashes the reader."""
    chance = random.Random(f"{seed} {reader.name}")
    corpus = list(reader.samples)
    reached: set[Step] = set()
    end, count = time.monotonic() + seconds, 0
    while count < inputs and time.monotonic() < end:
        content = (
            corpus[count]
            if count < len(reader.samples)
            else mutated(chance, chance.choice(corpus), corpus)
        )
        count += 1
        trace = _Trace()
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            _ = reader.read(content)
        except KquotaError:
            pass
        except Exception as error:  # noqa: BLE001 - any other error is the result
            sys.settrace(before)
            words = f"{type(error).__name__}: {error}"
            return FuzzResult(reader.name, count, len(reached), content, words)
        finally:
            sys.settrace(before)
        if not trace.steps <= reached:
            reached |= trace.steps
            corpus.append(content)
    return FuzzResult(reader.name, count, len(reached))
