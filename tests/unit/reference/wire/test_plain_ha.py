"""Packets of replication without controllers, in any split, and what is none of them."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from maxq.reference.records import LocalProtocolError, PhyOffset, RemoteProtocolError
from maxq.reference.wire import plain_ha as wire

OFFSETS = st.integers(0, 2**63 - 1)
PIECES = st.builds(wire.LogPiece, start=OFFSETS, data=st.binary(max_size=40))


@given(st.lists(PIECES, max_size=5), st.lists(OFFSETS, max_size=5), st.integers(1, 30))
@settings(max_examples=60)
def test_packets_in_any_split(sent: list[wire.LogPiece], said: list[int], step: int) -> None:
    pieces, reports = wire.master_decoder(), wire.slave_decoder()
    down = b"".join(map(wire.encode, sent))
    up = b"".join(wire.encode(wire.Report(offset=PhyOffset(o))) for o in said)
    got = [p for at in range(0, len(down), step) for p in pieces.feed(down[at : at + step])]
    heard = [r.offset for at in range(0, len(up), step) for r in reports.feed(up[at : at + step])]
    assert got == sent
    assert heard == said
    assert (pieces.pending, reports.pending) == (0, 0)


@pytest.mark.parametrize(
    "head", [bytes(8) + b"\x7f\xff\xff\xff", bytes(8) + b"\xff\xff\xff\xff", b"\xff" * 8 + bytes(4)]
)
def test_a_frame_of_two_gigabytes_or_below_zero_is_refused_by_its_header(head: bytes) -> None:
    decoder = wire.master_decoder()
    assert decoder.feed(head[:11]) == []
    with pytest.raises(RemoteProtocolError, match="out of bounds"):
        decoder.feed(head[11:])


def test_what_no_slave_could_read_is_not_written() -> None:
    with pytest.raises(LocalProtocolError):
        wire.encode(wire.LogPiece(start=PhyOffset(0), data=bytes(wire.BODY_BYTES_MAX + 1)))
    with pytest.raises(LocalProtocolError):
        wire.encode(wire.Report(offset=PhyOffset(2**63)))
