"""One run of the fuzzer: batches of hostile input, and what must hold meanwhile and afterwards.

A batch is drawn from the run's seed and its own number alone. Times are seconds, memory is bytes.
"""

import contextlib
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import fuzz_input
import fuzz_raft
import fuzz_stories
from fuzz_cluster import FuzzCluster, Port
from reference_nodes import HOST

from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.codes import RAFT
from maxq.reference.wire.frame import Decoder, Frame, encode

CHECK_EVERY = 25  # batches
FRAMES_MAX = 40  # of a batch
SERVED_S = 20.0  # within which the last request of a batch is answered, on a busy machine
NEIGHBOUR_S = 5.0  # likewise of somebody else's
QUIET_S = 0.02  # that damaged input is given to be answered
STORY_SHARE = 0.05  # of the batches to brokers
MEMORY_MAX = 256 << 20  # of one node: its code, its store, and all figures of docs/security.md
SESSIONS_MAX = 12  # of a batch
SPOKEN = str(RAFT).encode()  # stands once in each frame
CUT_OFF = "closed before the last request was answered"
LAST = 0x5EED  # opaque of the request at a batch's end


@dataclass
class Findings:
    """What a run came to. `faults` is empty where all is well."""

    frames: Counter[str] = field(default_factory=Counter)  # by port
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    peak_bytes: dict[str, int] = field(default_factory=dict)


def run(
    cluster: FuzzCluster, seed: int, goes_on: Callable[[int], bool], *, say: Callable[[str], None]
) -> Findings:
    """Send batches while `goes_on`, which is given the number of those that were sent; then start
    every node again.

    Args:
        cluster: started.
        seed: of the input.
        goes_on: ends the run.
        say: is told how it goes.
    """
    found, batch = Findings(), 0
    while goes_on(batch) and not found.faults:
        rng = Random(f"{seed}/{batch}")
        port = rng.choice(cluster.ports)
        fault = _send(port, rng, batch, found)
        if fault:
            found.faults.append(f"seed {seed} batch {batch}: {fault}")
        dead = cluster.dead()
        found.faults += [f"seed {seed} batch {batch} to {port}: {why}" for why in dead]
        batch += 1
        if batch % CHECK_EVERY == 0 and not found.faults:
            _check(cluster, found)
            say(f"{batch} batches, {sum(found.frames.values())} frames")
    if not found.faults:
        _restart(cluster, found)
    return found


def _send(port: Port, rng: Random, batch: int, found: Findings) -> str:
    """Send one batch to a port; returns what is wrong with how it was answered."""
    if port.speaks == "raft":
        return _speak(port, rng, batch, found)
    if port.is_broker and rng.random() < STORY_SHARE:
        return _perform(port, rng, found)
    count = rng.randrange(1, FRAMES_MAX)
    found.frames[f"{port.node} {port.speaks}".strip()] += count
    kind = fuzz_input.damaged if rng.random() < 0.25 else fuzz_input.request
    kind = fuzz_input.slave_packets if port.speaks else kind
    data = b"".join(kind(rng) for _ in range(count))
    if kind is not fuzz_input.request:
        return _talk(port, data, last=False)
    return _talk(port, data + encode(Frame(code=31_001, opaque=LAST)), last=True)


def _speak(port: Port, rng: Random, batch: int, found: Findings) -> str:
    """Hold some sessions with a Raft port, each until it is answered or cut off."""
    for _ in range(rng.randrange(1, SESSIONS_MAX)):
        data = fuzz_raft.session(rng, batch, LAST)
        found.frames[f"{port.node} raft"] += data.count(SPOKEN)
        fault = _talk(port, data, last=True)
        if fault not in ("", CUT_OFF):
            return fault
    return ""


def _perform(port: Port, rng: Random, found: Findings) -> str:
    """Perform one story at a broker; returns why it got no answers."""
    story = fuzz_stories.story(rng)
    found.frames["stories"] += 1
    try:
        story(port, rng)
    except OSError as error:
        return f"no answer in {story.__name__}: {error}"
    return ""


def _talk(port: Port, data: bytes, *, last: bool) -> str:
    """Write everything while reading; with `last`, until the last request is answered."""
    decoder, view = Decoder(), memoryview(data)
    with contextlib.suppress(ConnectionError), socket.create_connection((HOST, port.number)) as s:
        s.setblocking(False)
        until = time.monotonic() + (SERVED_S if last else QUIET_S)
        while time.monotonic() < until:
            readable, writable, _ = select.select([s], [s] if view else [], [], QUIET_S)
            if writable:
                view = view[s.send(view[: 1 << 16]) :]
            if not readable:
                continue
            answered = s.recv(1 << 20)
            if not answered:
                return CUT_OFF if last else ""
            if port.speaks != "ha":
                try:
                    frames = decoder.feed(answered)
                except RemoteProtocolError as error:
                    return f"answers what is no frame: {error}"
                if any(f.is_response and f.opaque == LAST for f in frames):
                    return ""
        return f"the last request is not answered within {SERVED_S} s" if last else ""
    return ""


def _check(cluster: FuzzCluster, found: Findings) -> None:
    """A neighbour is served, and memory is bounded."""
    try:
        found.slowest_s = max(found.slowest_s, *cluster.neighbour_s().values())
    except OSError as error:
        found.faults += [f"a neighbour is not served: {error}", *cluster.dead()]
    if found.slowest_s > NEIGHBOUR_S:
        found.faults.append(f"a neighbour was served after {found.slowest_s:.1f} s")
    for name, size in cluster.peak_bytes().items():
        found.peak_bytes[name] = max(size, found.peak_bytes.get(name, 0))
        if size > MEMORY_MAX:
            found.faults.append(f"{name} had {size >> 20} MiB, at most {MEMORY_MAX >> 20}")
    escaped = cluster.escaped(fuzz_input.ESCAPED)
    found.faults += [f"made outside of a store: {path}" for path in escaped]


def _restart(cluster: FuzzCluster, found: Findings) -> None:
    """Stop every node and start it on what it has."""
    codes = cluster.stop()
    found.faults += [f"{name} stops with {code}" for name, code in codes.items() if code]
    try:
        cluster.start()
    except AssertionError as error:
        found.faults += [f"after the restart: {error}", *cluster.dead()]
        return
    _check(cluster, found)
