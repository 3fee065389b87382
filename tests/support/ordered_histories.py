"""Histories of one ordered queue, whose brokers are not in strict mode unless it is said."""

from typing import Any

import msgspec
from history_recorder import SECOND_NS
from lock_service_histories import Asked

from maxq.checkers.core.api import Context
from maxq.histories.observed import ACQUIRE, NOT_GRANTED, ORDERED_KEYS, READ_ORDERED, RELEASE

STRICT = Context(
    broker_sets={"b0": ("b0-0", "b0-1", "b0-2")}, recovery_ns=10 * SECOND_NS,
    eviction_ns=6 * SECOND_NS, lock_lease_ns=10 * SECOND_NS, client_lease_ns=5 * SECOND_NS,
    settings={"broker:lockInStrictMode": "true"},
)  # fmt: skip
LOOSE = msgspec.structs.replace(STRICT, settings={"broker:lockInStrictMode": "false"})
SETTLED = 14  # s after the last act: recovery, routes, renewals, requests


class Consumed(Asked):
    """Requests for the lock of the first ordered queue, and reads of it."""

    def asks(
        self, at: float, process: int, *, granted: bool | None, f: str = ACQUIRE, node: str = "b0-0"
    ) -> int:
        return self.takes(at, at + 0.01, process, granted=granted, f=f, node=node)

    def takes(self, at: float, until: float, process: int, *, granted: bool | None = True,
              f: str = ACQUIRE, node: str | None = "b0-0") -> int:  # fmt: skip
        self.now = at
        self.begin(process, f, ORDERED_KEYS)
        self.now = until
        kind: Any = "ok" if granted else "info" if granted is None else "fail"
        ext = {"broker": f"{node}:1"} if node else {}
        index = self.end(kind, process, f, ORDERED_KEYS, **ext)
        error = None if granted else "timeout" if granted is None else NOT_GRANTED
        self.ops[-1] = msgspec.structs.replace(self.ops[-1], error=error)
        return index

    def frees(self, at: float, process: int, *, node: str | None = "b0-0") -> int:
        return self.takes(at, at + 0.01, process, f=RELEASE, node=node)

    def reads(self, at: float, until: float, process: int, *values: int) -> int:
        self.now = at
        self.begin(process, READ_ORDERED, ORDERED_KEYS)
        self.now = until
        return self.end("ok", process, READ_ORDERED, [[v, v] for v in values], node="b0")


def forgotten(*, act: str = "", node: str = "b0-0", apart: float = 3) -> Consumed:
    """The broker b0-0 grants to 1 at 1 s, and to 2 some time later; `act`: what the nemesis does to
    a node in between."""
    r = Consumed()
    r.lives()
    r.asks(1, 1, granted=True)
    if act:
        r.act(1.5, act, node)
    r.asks(1 + apart, 2, granted=True)
    r.act(30, "pause", "b0-2")
    r.act(31, "resume", "b0-2")
    return r


def two_brokers(*, at: float = 5 + SETTLED, apart: float = 1) -> Consumed:
    """A master is back at 5 s, and one client is granted the lock by it, another one some time
    later by the slave; nothing else happens until 60 s."""
    r = Consumed()
    r.act(1, "pause", "b0-0")
    r.act(5, "resume", "b0-0")
    r.asks(at, 1, granted=True)
    r.asks(at + apart, 2, granted=True, node="b0-1")
    r.act(60, "pause", "b0-2")
    r.act(61, "resume", "b0-2")
    return r
