"""TCP streams, put together from packets. Pure: what is not seen is not asked for.

A `Conversation` is one TCP connection between two ends. Its two directions are `Stream`s: the bytes
in order, and when each became known. Segments may come in any order, more than once, and overlap;
of a byte that comes twice the first is taken, and TCP sends it equal. A stream begins behind its
SYN; of a connection that began before the capture it begins at the first byte that was seen, and
the conversation says so. It ends at its first gap: what was lost before it cannot be read.

Times are nanoseconds of the capturing machine's clock. Source: RFC 9293.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
TCP = 6
_SPAN = 1 << 32  # sequence numbers are counted modulo this
_FAR = 1 << 26  # no stream here is so long, and a later connection begins behind an earlier one
_IP_BYTES, _TCP_BYTES = 20, 20

End = tuple[str, int]  # address, port


class Segment(NamedTuple):
    """A TCP segment; `seq` is that of its first byte, or of its SYN."""

    at_ns: int
    source: End
    target: End
    seq: int
    flags: int
    data: bytes


class Stream(NamedTuple):
    """One direction. `data` up to the first gap; `size` bytes are known to have been sent, more
    than in `data` where some are missing; `pieces` are (offset, time) of what made it up."""

    data: bytes
    size: int
    pieces: tuple[tuple[int, int], ...]

    def known_at(self, offset: int) -> int:
        """When the byte at an offset of `data` was seen."""
        return self.pieces[bisect_right(self.pieces, offset, key=lambda p: p[0]) - 1][1]


class Conversation(NamedTuple):
    """A connection. Who sent the SYN is the client; `whole` is false where no SYN was seen, and the
    client then is who has the larger port. `closed_ns` is the first FIN or RST; None: it was open
    at the end."""

    client: End
    server: End
    opened_ns: int
    closed_ns: int | None
    whole: bool
    up: Stream
    down: Stream


def segment(at_ns: int, packet: bytes) -> Segment | None:
    """Read an IPv4 packet; None if there is no TCP in it, or not all of its header.

    Padding behind the packet is no data. A total length of 0, as of a packet that the kernel has
    put together from many, means all of it.
    """
    if len(packet) < _IP_BYTES or packet[0] >> 4 != 4 or packet[9] != TCP:
        return None
    first = 4 * (packet[0] & 0x0F)
    total = int.from_bytes(packet[2:4], "big") or len(packet)
    fragment = int.from_bytes(packet[6:8], "big") & 0x3FFF
    if fragment or len(packet) < first + _TCP_BYTES:
        return None
    from_port, to_port, seq, _, high, flags = struct.unpack_from(">HHIIBB", packet, first)
    source, target = (".".join(map(str, packet[i : i + 4])) for i in (12, 16))
    data = packet[first + 4 * (high >> 4) : total]
    return Segment(at_ns, (source, from_port), (target, to_port), seq, flags, data)


def conversations(segments: Iterable[Segment]) -> list[Conversation]:
    """All connections, in order of their beginnings."""
    found: dict[tuple[End, End], list[list[Segment]]] = {}
    for s in segments:
        key = (min(s.source, s.target), max(s.source, s.target))
        known = found.setdefault(key, [[]])
        if _begins_another(s, known[-1]):
            known.append([])
        known[-1].append(s)
    every = [_put_together(own) for known in found.values() for own in known if own]
    return sorted(every, key=lambda c: c.opened_ns)


def _begins_another(s: Segment, before: list[Segment]) -> bool:
    """Whether a segment opens a connection between ends that had one: a client's SYN of another
    number than theirs, or, where none was seen, one that nothing of theirs follows."""
    if s.flags & (SYN | ACK) != SYN or not before:
        return False
    opened = [o for o in before if o.flags & (SYN | ACK) == SYN]
    if opened:
        return opened[0].seq != s.seq
    own = [o for o in before if o.source == s.source]
    return bool(own) and not any(0 < _distance(s.seq, o.seq) < _FAR for o in own)


def _put_together(own: list[Segment]) -> Conversation:
    opens = [s for s in own if s.flags & (SYN | ACK) == SYN]
    answers = [s for s in own if s.flags & (SYN | ACK) == SYN | ACK]
    if opens or answers:
        client = opens[0].source if opens else answers[0].target
        server = opens[0].target if opens else answers[0].source
    else:
        server, client = sorted((own[0].source, own[0].target), key=lambda end: end[1])
    ends = [s.at_ns for s in own if s.flags & (FIN | RST)]
    return Conversation(
        client=client,
        server=server,
        opened_ns=min(s.at_ns for s in own),
        closed_ns=min(ends, default=None),
        whole=bool(opens),
        up=stream([s for s in own if s.source == client]),
        down=stream([s for s in own if s.source == server]),
    )


def stream(segments: list[Segment]) -> Stream:
    """Put one direction together."""
    begin = next((_after(s.seq, 1) for s in segments if s.flags & SYN), None)
    filled = [s for s in segments if s.data]
    if begin is None and filled:
        begin = filled[0].seq
        begin = _after(begin, min(_distance(begin, s.seq) for s in filled))
    if begin is None:
        return Stream(b"", 0, ())
    # Data behind a SYN in the same segment has the next number.
    placed = [(_distance(begin, s.seq) + bool(s.flags & SYN), s) for s in filled]
    size = max((at + len(s.data) for at, s in placed), default=0)
    finished = [_distance(begin, s.seq) + len(s.data) for s in segments if s.flags & FIN]
    data, pieces = bytearray(), []
    for at, s in sorted(placed, key=lambda p: (p[0], p[1].at_ns)):
        if at > len(data):
            break
        fresh = s.data[len(data) - at :]
        if fresh:
            pieces.append((len(data), s.at_ns))
            data += fresh
    return Stream(bytes(data), max([size, *finished]), tuple(pieces))


def _after(seq: int, count: int) -> int:
    return (seq + count) % _SPAN


def _distance(begin: int, seq: int) -> int:
    """How far a number is behind another, the shorter way round: negative if it is before."""
    return (seq - begin + _SPAN // 2) % _SPAN - _SPAN // 2
