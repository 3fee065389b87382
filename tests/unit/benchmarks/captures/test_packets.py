"""What was heard is written as pcap, to the last packet, and read again."""

import io
import os
import socket

import pytest

from benchmarks.captures import packets


class Deaf(socket.socket):
    """A socket that says that the kernel has dropped three packets."""

    def getsockopt(self, *_: object) -> bytes:  # type: ignore[override]
        return b"\x05\0\0\0\x03\0\0\0"


def test_packets_are_written_until_the_end_and_what_waits_then_too() -> None:
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    read_end, write_end = os.pipe()
    with theirs, Deaf(fileno=ours.detach()) as sock, open(read_end, "rb") as until:
        for packet in (b"one", b"two", b"three"):
            theirs.send(packet)
        os.close(write_end)
        file = io.BytesIO()
        seen = packets.record(sock, until, file)
    assert seen == {"packets": 3, "dropped": 3}
    found = list(packets.read(file.getvalue()))
    assert [packet for _, packet in found] == [b"one", b"two", b"three"]
    assert sorted(at_ns for at_ns, _ in found) == [at_ns for at_ns, _ in found]


def test_a_capture_that_may_lack_packets_is_none() -> None:
    assert packets.counted(0, b'{"packets": 7, "dropped": 0}\n') == 7
    for code, said in ((0, b'{"packets": 7, "dropped": 1}\n'), (-9, b""), (1, b"x"), (0, b"")):
        with pytest.raises(packets.PacketsLost):
            packets.counted(code, said)


def test_a_damaged_file_is_refused() -> None:
    head = packets._FILE.pack(packets._MAGIC_NS, 2, 4, 0, 0, 1 << 16, packets.LINKTYPE_RAW)
    whole = head + packets.pcap_record(10**18 + 7, b"packet")
    assert list(packets.read(whole)) == [(10**18 + 7, b"packet")]
    for cut in (10, len(head) + 3, len(whole) - 1):
        with pytest.raises(ValueError):
            list(packets.read(whole[:cut]))
