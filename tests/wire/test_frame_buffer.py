from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import FrameTooLarge
from reconciler.wire.frames import SMALL_BYTES, FrameBuffer


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(
    st.lists(
        st.sampled_from([b"four", b"x" * 100, b"y" * (SMALL_BYTES - 4), b"z" * 70_000]), max_size=6
    ),
    st.lists(st.integers(1, 90_000), min_size=1, max_size=10),
)
def test_frames_are_complete_for_any_division_of_the_stream(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream, frames, buffer, turn = framed(*bodies), [], FrameBuffer(), 0
    while stream:
        size = cuts[turn % len(cuts)]
        frames += buffer.feed(stream[:size])
        stream, turn = stream[size:], turn + 1
    assert frames == bodies
    assert buffer.is_empty


def test_a_frame_is_read_one_byte_at_a_time() -> None:
    buffer, frames = FrameBuffer(), []
    for octet in framed(b"hello", b"world!"):
        assert len(buffer.get_buffer()) > 0
        frames += buffer.feed(bytes((octet,)))
    assert frames == [b"hello", b"world!"]


def test_frames_before_an_error_are_returned_and_none_after_it() -> None:
    buffer = FrameBuffer(limit=10)
    assert buffer.feed(framed(b"fine", b"far too long for it", b"fine")) == [b"fine"]
    assert isinstance(buffer.failure, FrameTooLarge)
    assert buffer.feed(framed(b"fine")) == []
    assert repr(buffer) == "FrameBuffer(limit=10)"


def test_the_limit_may_change_between_frames() -> None:
    buffer = FrameBuffer(limit=4)
    assert buffer.feed(framed(b"fine")) == [b"fine"]
    buffer.limit = 5
    assert buffer.feed(framed(b"finer")) == [b"finer"]
