"""TCP streams are the same bytes in whatever order, and however often, their segments come."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.captures.streams import (
    ACK,
    FIN,
    RST,
    SYN,
    Conversation,
    Segment,
    conversations,
    segment,
)

CLIENT, SERVER = ("198.18.0.2", 40_000), ("198.18.0.16", 10911)
SPAN = 1 << 32


def packet(s: Segment, padding: bytes = b"", total: int | None = None) -> bytes:
    """An IPv4 packet with a segment in it."""
    size = 40 + len(s.data) if total is None else total
    addresses = b"".join(bytes(map(int, end[0].split("."))) for end in (s.source, s.target))
    ip = bytes([0x45, 0]) + size.to_bytes(2, "big") + bytes([0, 0, 0x40, 0, 64, 6, 0, 0])
    tcp = b"".join(p.to_bytes(2, "big") for p in (s.source[1], s.target[1]))
    tcp += s.seq.to_bytes(4, "big") + bytes(4) + bytes([5 << 4, s.flags]) + bytes(6)
    return ip + addresses + tcp + s.data + padding


def up(at_ns: int, seq: int, flags: int = ACK, data: bytes = b"") -> Segment:
    return Segment(at_ns, CLIENT, SERVER, seq % SPAN, flags, data)


def down(at_ns: int, seq: int, flags: int = ACK, data: bytes = b"") -> Segment:
    return Segment(at_ns, SERVER, CLIENT, seq % SPAN, flags, data)


def connection(begin: int = 100, data: bytes = b"hello world") -> list[Segment]:
    """A handshake, the data in pieces of four bytes, an answer, an end."""
    cut = [data[i : i + 4] for i in range(0, len(data), 4)]
    said = [up(10 + i, begin + 1 + 4 * i, ACK, piece) for i, piece in enumerate(cut)]
    return [
        up(1, begin, SYN), down(2, 500, SYN | ACK), up(3, begin + 1), *said,
        down(50, 501, ACK, b"yes"), up(60, begin + 1 + len(data), FIN | ACK),
        down(61, 504, FIN | ACK),
    ]  # fmt: skip


def only(segments: list[Segment]) -> Conversation:
    (found,) = conversations(segments)
    return found


def test_a_connection_is_put_together() -> None:
    found = only(connection())
    assert (found.client, found.server, found.whole) == (CLIENT, SERVER, True)
    assert (found.up.data, found.down.data) == (b"hello world", b"yes")
    assert (found.up.size, found.down.size) == (11, 3)
    assert (found.opened_ns, found.closed_ns) == (1, 60)
    assert [found.up.known_at(i) for i in (0, 3, 4, 10)] == [10, 10, 11, 12]


@given(
    data=st.binary(min_size=1, max_size=200),
    begin=st.sampled_from([0, 7, SPAN - 1, SPAN - 50]),
    cuts=st.lists(st.tuples(st.integers(0, 199), st.integers(1, 60)), max_size=30),
    seed=st.integers(0, 1 << 30),
)
def test_any_order_and_repetition_gives_the_same_bytes(
    data: bytes, begin: int, cuts: list[tuple[int, int]], seed: int
) -> None:
    said = connection(begin, data)
    again = [up(100 + i, begin + 1 + at, ACK, data[at : at + n]) for i, (at, n) in enumerate(cuts)]
    mixed = said + again + [s for s in said if not s.flags & SYN]
    random.Random(seed).shuffle(mixed)
    found = only(mixed)
    assert (found.client, found.up.data, found.down.data) == (CLIENT, data, b"yes")
    assert found.up.size == len(data)


@given(data=st.binary(min_size=9, max_size=80), lost=st.integers(0, 30))
def test_a_stream_ends_at_its_first_gap(data: bytes, lost: int) -> None:
    said = connection(data=data)
    pieces = [s for s in said if s.source == CLIENT and s.data]
    gone = pieces[lost % len(pieces)]
    found = only([s for s in said if s is not gone])
    assert found.up.data == data[: (gone.seq - 101) % SPAN]
    assert found.up.size == len(data)  # its FIN says so, or a later piece


def test_a_connection_that_began_before_begins_at_its_first_byte() -> None:
    said = [s for s in connection(SPAN - 3) if not s.flags & SYN]
    found = only(said[::-1])
    assert (found.client, found.whole) == (CLIENT, False)
    assert (found.up.data, found.down.data) == (b"hello world", b"yes")


def test_ends_that_meet_again_have_another_connection() -> None:
    again = [s._replace(at_ns=s.at_ns + 1000) for s in connection(900, b"again")]
    first, second = conversations([*connection(), connection()[0], *again])
    assert (first.up.data, second.up.data) == (b"hello world", b"again")
    unseen = [s for s in connection() if not s.flags & SYN]
    assert [c.whole for c in conversations([*unseen, *again])] == [False, True]


def test_a_refused_connection_and_probes_that_keep_one_alive_carry_nothing() -> None:
    refused = only([up(1, 5, SYN), down(2, 0, RST | ACK)])
    assert (refused.up.size, refused.down.size, refused.closed_ns) == (0, 0, 2)
    kept = only([*connection()[:3], up(70, 100, ACK, b"\0")])
    assert (kept.up.data, kept.up.size, kept.closed_ns) == (b"", 0, None)


def test_a_packet_is_read_without_its_padding() -> None:
    sent = up(7, 9, ACK, b"data")
    assert segment(7, packet(sent)) == sent
    assert segment(7, packet(sent, padding=b"\0\0")) == sent
    assert segment(7, packet(sent, total=0)) == sent  # the kernel's own, too long to say


@pytest.mark.parametrize(
    "other",
    [
        b"",
        packet(up(0, 0))[:39],
        b"\x60" + packet(up(0, 0))[1:],  # IPv6
        packet(up(0, 0))[:9] + b"\x11" + packet(up(0, 0))[10:],  # UDP
        packet(up(0, 0))[:6] + b"\x00\x10" + packet(up(0, 0))[8:],  # a later fragment
    ],
)
def test_what_is_no_tcp_is_left_out(other: bytes) -> None:
    assert segment(0, other) is None
