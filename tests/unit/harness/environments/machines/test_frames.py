"""Messages on a stream whose pieces come as they will."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.environments.machines.frames import FRAME_MAX, Frames, framed

MESSAGES = st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9)))


@given(messages=MESSAGES, size=st.integers(1, 9))
def test_whole_messages_come_out_of_any_pieces(
    messages: list[dict[str, object]], size: int
) -> None:
    stream, frames = b"".join(map(framed, messages)), Frames()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [message for piece in pieces for message in frames.take(piece)] == messages


@pytest.mark.parametrize(
    "stream", [(FRAME_MAX + 1).to_bytes(4, "big"), b"\0\0\0\2[]", b"\0\0\0\1{", b"Hello, world"]
)
def test_what_is_no_stream_of_messages_is_refused(stream: bytes) -> None:
    with pytest.raises(ValueError):
        list(Frames().take(stream))


def test_a_message_has_a_bound() -> None:
    with pytest.raises(ValueError, match="longer than"):
        framed({"text": "x" * FRAME_MAX})
