"""Histories of one lock of a set of three, in which hardly anybody wants it."""

import msgspec
from pair_histories import Told

from maxq.histories.observed import (
    ACQUIRE,
    NOT_GRANTED,
    OBSERVE_REPLICA,
    RELEASE,
    ReplicaView,
    encoded,
)

BROKERS = ("b0-0", "b0-1", "b0-2")


class Asked(Told):
    """Requests for lock 0 at given times (s)."""

    def asks(
        self, at: float, process: int, *, granted: bool | None, f: str = ACQUIRE, node: str = "b0-0"
    ) -> int:
        """One request and its answer, 10 ms later; None: it has none."""
        self.now = at
        self.begin(process, f, 0)
        self.now = at + 0.01
        ext = {"broker": f"{node}:1"}
        if granted:
            return self.end("ok", process, f, 0, **ext)
        index = self.end("info" if granted is None else "fail", process, f, 0, **ext)
        error = "timeout" if granted is None else NOT_GRANTED
        self.ops[-1] = msgspec.structs.replace(self.ops[-1], error=error)
        return index

    def gives_back(self, at: float, process: int) -> int:
        return self.asks(at, process, granted=True, f=RELEASE)

    def lives(self) -> None:
        """All brokers say where they are."""
        for node in BROKERS:
            view = ReplicaView(
                node=node, set="b0", address=f"{node}:1", id=None, leads=False, epochs=(), end=0,
                confirmed=None,
            )  # fmt: skip
            self.op("ok", 9, OBSERVE_REPLICA, {"node": node}, encoded(view))


def expired(*, refused: bool = True) -> Asked:
    """A lock that was held at 5 s is asked for at 30 s."""
    r = Asked()
    r.asks(5, 1, granted=True)
    r.asks(30, 2, granted=not refused)
    return r


def given_back(*, refused: bool = True, after: float = 3) -> Asked:
    """A lock that nobody wanted is granted at 40 s, given back at 41 s and asked for again."""
    r = Asked()
    r.asks(5, 2, granted=True)
    r.asks(40, 1, granted=True)
    r.asks(40.5, 2, granted=False)
    r.gives_back(41, 1)
    r.asks(41.01 + after, 2, granted=not refused)
    return r


def silent_member(*, granted: bool | None = None, until: float = 45, node: str = "b0-0") -> Asked:
    """From 10 s on a slave is held, and from 35 s on the others are asked for a lock."""
    r = Asked()
    r.lives()
    r.act(10, "pause", "b0-2")
    for second in range(35, round(until)):
        r.asks(second, second, granted=granted, node=node)
    r.act(until, "resume", "b0-2")
    return r


def alone(*, granted: bool = True, at: float = 15, f: str = "kill") -> Asked:
    """From 11 s on two of three are gone, and the third is asked for a lock."""
    r = Asked()
    r.lives()
    r.act(10, "pause", "b0-2")
    if at < 11:
        r.asks(at, 1, granted=granted)
    r.act(11, f, "b0-1")
    if at >= 11:
        r.asks(at, 1, granted=granted)
    r.act(30, "resume", "b0-2")
    return r
