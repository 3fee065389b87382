"""A process that writes down what passes a bridge, and how it is started and read.

It runs in the namespaces of an agent (`maxq.harness.environments.machines.netns_agent`), listens on
the bridge by an AF_PACKET socket and writes a pcap file, which Wireshark reads too. It does nothing
else, so that it does not fall behind; had the kernel dropped a packet all the same, `Listener.end`
raises. It ends when its standard input does: with whoever started it, however that ended.

``python -m benchmarks.captures.packets BRIDGE FILE``. Linux; times are those of this machine.
"""

import json
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

ETH_P_IP = 0x0800
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_STATISTICS, PACKET_MR_PROMISC = 263, 1, 6, 1
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 64 << 20
PACKET_BYTES_MAX = 1 << 16  # the kernel may have put many segments together
LINKTYPE_RAW = 101  # packets begin with their IP header
_FILE = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_MAGIC_NS = 0xA1B23C4D  # times in nanoseconds
END_TIMEOUT_S = 10.0
READY = b"ready\n"


class PacketsLost(Exception):
    """The kernel dropped packets, or nobody can say whether it did."""


class Listener:
    """The process that listens, and its file.

    Args:
        inside: a process of the agent's network, by its number.
        bridge: the device.
        file: to write.
    """

    def __init__(self, inside: int, bridge: str, file: Path) -> None:
        entering = ("nsenter", "--preserve-credentials", "--user", "--net", "--target")
        program = (sys.executable, "-m", "benchmarks.captures.packets", bridge, str(file))
        self._process = subprocess.Popen(
            [*entering, str(inside), *program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        out = self._process.stdout
        if out is None or out.readline() != READY:
            self._process.kill()
            raise PacketsLost("the process that listens did not start")

    def end(self) -> int:
        """Stop listening; returns how many packets were written.

        Raises:
            PacketsLost: the kernel dropped some, or the process has ended by itself.
        """
        try:
            said, _ = self._process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PacketsLost("the process that listens does not end") from None
        return counted(self._process.returncode, said)

    def kill(self) -> None:
        """End it; its file is of no use."""
        self._process.kill()
        self._process.communicate()


def counted(code: int, said: bytes) -> int:
    """How many packets a process wrote that ended so, and said this. Raises PacketsLost."""
    if code or not said:
        raise PacketsLost(f"the process that listens ended with {code}")
    seen = json.loads(said)
    if seen["dropped"]:
        raise PacketsLost(f"the kernel dropped {seen['dropped']} of {seen['packets']} packets")
    return int(seen["packets"])


def listen(bridge: str) -> socket.socket:
    """Open a socket to which a bridge gives a copy of each IPv4 packet that passes."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    except OSError:  # of another user's namespace; what the kernel allows must do
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    sock.bind((bridge, ETH_P_IP))
    # Without it the bridge keeps to itself what it hands from port to port.
    wanted = struct.pack("iHH8s", socket.if_nametoindex(bridge), PACKET_MR_PROMISC, 0, b"")
    sock.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, wanted)
    sock.setblocking(False)
    return sock


def record(sock: socket.socket, until: BinaryIO, file: BinaryIO) -> dict[str, int]:
    """Write packets until there is something to read, or an end; returns what was counted."""
    file.write(_FILE.pack(_MAGIC_NS, 2, 4, 0, 0, PACKET_BYTES_MAX, LINKTYPE_RAW))
    packets, ended = 0, False
    while True:
        sources: list[socket.socket | BinaryIO] = [sock] if ended else [sock, until]
        ready, _, _ = select.select(sources, [], [], 0 if ended else None)
        if sock in ready:
            packet = sock.recv(PACKET_BYTES_MAX)
            file.write(pcap_record(time.time_ns(), packet))
            packets += 1
        elif ended:
            break
        ended = ended or until in ready
    _, dropped = struct.unpack("II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return {"packets": packets, "dropped": dropped}


def pcap_record(at_ns: int, packet: bytes) -> bytes:
    """Write a packet as pcap does."""
    return _RECORD.pack(*divmod(at_ns, 10**9), len(packet), len(packet)) + packet


def read(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Read a file that `record` wrote: when each packet came, and the packet.

    Raises:
        ValueError: it is none, or ends within a packet.
    """
    if len(data) < _FILE.size or _FILE.unpack_from(data)[0] != _MAGIC_NS:
        raise ValueError("no pcap file with nanoseconds")
    at = _FILE.size
    while at < len(data):
        if at + _RECORD.size > len(data):
            raise ValueError(f"ends within the head of a packet, at {at}")
        seconds, ns, size, _ = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if at + size > len(data):
            raise ValueError(f"ends within a packet, at {at}")
        yield seconds * 10**9 + ns, data[at : at + size]
        at += size


def main() -> None:
    bridge, name = sys.argv[1:]
    sock = listen(bridge)
    with open(name, "wb") as file:
        sys.stdout.buffer.write(READY)
        sys.stdout.flush()
        seen = record(sock, sys.stdin.buffer, file)
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
