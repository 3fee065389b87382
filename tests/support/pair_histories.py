"""Histories of a set without controllers, whose master is gone for a while."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from history_recorder import SECOND_NS, Recorder

from maxq.histories.observed import (
    COMMIT_OFFSET,
    FETCH_OFFSET,
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
    ReplicaView,
    RouteView,
    encoded,
)
from maxq.histories.op import NEMESIS, Op, OpType

Delays = dict[str, tuple[int, int]]


class Told(Recorder):
    """Operations at given times."""

    now = 0.0

    def _add(self, op_type: Any, process: Any, f: str, value: Any, ext: dict[str, Any]) -> int:
        index = len(self.ops)
        time = round(self.now * SECOND_NS)
        self.ops.append(Op(op_type, process, f, value, None, index, time, ext or None))
        return index

    def act(self, at: float, f: str, node: str) -> None:
        self.now = at
        self.begin(NEMESIS, f, f"{f}@{at}")
        self.end("info", NEMESIS, f, {node: {"holds": True}})

    def cut(self, at: float, one: str, other: str) -> None:
        self.now = at
        self.begin(NEMESIS, "start-partition", f"cut@{at}", who={"nodes": [one]})
        both = {a: {"from": [b], "holds": True} for a, b in ((one, other), (other, one))}
        self.end("info", NEMESIS, "start-partition", both)

    def says(
        self,
        at: float,
        node: str,
        *,
        acting: bool,
        isolated: bool | msgspec.UnsetType = False,
        end: int = 0,
        copying: bool | msgspec.UnsetType = msgspec.UNSET,
        delays: Delays | msgspec.UnsetType = msgspec.UNSET,
        leads: bool = False,
    ) -> int:
        self.now = at
        view = ReplicaView(
            node=node, set="b0", address=f"{node}:1", id=None, leads=leads, epochs=(), end=end,
            confirmed=None, acting=acting, isolated=isolated,
            copying=copying, delays=delays,
        )  # fmt: skip
        return self.op("ok", 9, OBSERVE_REPLICA, {"node": node}, encoded(view))

    def silent(self, at: float, node: str) -> int:
        """It was asked and did not answer."""
        self.now = at
        return self.op("fail", 9, OBSERVE_REPLICA, {"node": node}, {"node": node})

    def lists(self, at: float, *roles: str) -> int:
        """The name server lists the set's brokers of these roles."""
        self.now = at
        view = RouteView(node="n0", sets={"b0": {role: f"b0-{role}:1" for role in roles}})
        return self.op("ok", 8, OBSERVE_ROUTE, {"node": "n0"}, encoded(view))


def masterless(*answers: tuple[float, str, bool]) -> Told:
    """Its master is dead from 10 s to 30 s, and back until 60 s."""
    r = Told()
    r.act(10, "kill", "b0-0")
    for at, node, acting in sorted(a for a in answers if a[0] < 30):
        r.says(at, node, acting=acting)
    r.act(30, "start", "b0-0")
    for at, node, acting in sorted(a for a in answers if a[0] >= 30):
        r.says(at, node, acting=acting)
    r.act(60, "pause", "n0")
    r.act(61, "resume", "n0")
    return r


def parted(*, others: Sequence[str] = (), online_at: float = 90, asked: bool = True) -> Told:
    """A master is back at 20 s, and parted from a slave from 21 s to 85 s; it is asked at 80 s,
    slaves too if `asked`. `others`: two more nodes that a cut parts."""
    r = Told()
    r.act(15, "kill", "b0-0")
    r.act(20, "start", "b0-0")
    if others:
        r.cut(20.5, *others)
    r.cut(21, "b0-0", "b0-1")
    for node in ("b0-1", "b0-2") if asked else ():
        r.says(40, node, acting=node == "b0-1")
    r.says(80, "b0-0", acting=False, isolated=online_at > 80)
    r.act(85, "stop-partition", "b0-0")
    r.act(86, "pause", "n0")
    return r


class Offsets(Told):
    """Offsets of one group, beside what brokers and the name server n0 say."""

    def silent(self, at: float, node: str) -> int:
        """It was asked and did not answer."""
        self.now = at
        return self.op("fail", 9, OBSERVE_REPLICA, {"node": node}, {"node": node})

    def lists(self, at: float, *ids: str) -> int:
        self.now = at
        view = RouteView(node="n0", sets={"b0": {i: f"b0-{i}:1" for i in ids}})
        return self.op("ok", 9, OBSERVE_ROUTE, {"node": "n0"}, encoded(view))

    def commits(self, at: float, offset: int, node: str) -> int:
        self.now = at
        return self.op("ok", 3, COMMIT_OFFSET, [3, offset], [3, offset], broker=f"{node}:1")

    def fetches(self, at: float, offset: int, node: str) -> int:
        self.now = at
        return self.op("ok", 3, FETCH_OFFSET, 3, [3, offset], broker=f"{node}:1")


def returned(
    *,
    listed: bool = False,
    online_at: float = 25,
    knows: int = 2,
    written_at: float = 1,
    strikes: str = "",
) -> Offsets:
    """A master takes offset 1, is dead from 15 s to 20 s, a slave takes 2, and the master, online
    again, `knows` an offset. `listed`: before it is online; `strikes`: a broker meanwhile."""
    r = Offsets()
    r.says(0.5, "b0-0", acting=False)
    r.commits(written_at, 1, "b0-0")
    r.act(15, "kill", "b0-0")
    r.says(17, "b0-1", acting=True)
    r.commits(18, 2, "b0-1")
    r.lists(19, "1")
    r.act(20, "start", "b0-0")
    r.lists(21, "1")
    if strikes:
        r.act(21.5, "pause", strikes)
        r.act(21.7, "resume", strikes)
    if listed:
        r.lists(22, "0", "1")
    r.says(23, "b0-0", acting=False, isolated=True)
    for at in (25, 80):
        r.says(at, "b0-0", acting=False, isolated=at < online_at)
    r.lists(81, *(("0", "1") if online_at < 80 else ("1",)))
    r.fetches(82, knows, "b0-0")
    r.act(85, "pause", "n0")
    r.act(86, "resume", "n0")
    return r


def slave_asked(
    *, knows: int = 1, committed_at: float = 1, strikes: str = "", back: bool = False
) -> Offsets:
    """A master takes offset 1 and is dead from 45 s on; a slave, asked then, `knows` an offset.
    `strikes`: a node at 20 s; `back`: the slave is ended and started after the master's end."""
    r = Offsets()
    r.says(0.1, "b0-0", acting=False)
    r.says(0.2, "b0-1", acting=False)
    r.lists(0.3, "0", "1")
    r.commits(committed_at, 1, "b0-0")
    if strikes:
        r.act(20, "pause", strikes)
        r.act(20.2, "resume", strikes)
    r.act(45, "kill", "b0-0")
    if back:
        r.act(46, "kill", "b0-1")
        r.act(47, "start", "b0-1")
    r.fetches(50, knows, "b0-1")
    return r


class Served(Offsets):
    """What clients ask of a set whose master is gone, of queue 0."""

    def sends(self, at: float, offset: int, byte: int) -> int:
        self.now = at
        return self.send(1, offset, offset, node="b0", broker="b0-0:1", byte=byte)

    def reads(self, at: float, *, end: int | None, **ext: Any) -> int:
        """`end`: of the queue, as the slave shows it; None: the poll fails."""
        self.now = at
        asked = {"node": "b0", "broker": "b0-1:1", **ext}
        if end is None:
            return self.op("fail", 2, "poll", [["poll"]], [["poll"]], **asked)
        return self.poll(2, **asked, end={0: end})

    def asks(self, at: float, f: str, code: int | None, node: str = "b0-1") -> int:
        """A request for offsets or a lock; `code` of its answer, None if there was none."""
        self.now = at
        kind: OpType = "ok" if code == 0 else "fail"
        ext = {} if not code else {"code": code}
        value = [4, 1] if f == COMMIT_OFFSET else 4
        return self.op(kind, 4, f, value, value, broker=f"{node}:1", **ext)


def served(*calls: Callable[[Served], object]) -> Served:
    """Two messages, at bytes 0 and 100; their master is dead from 10 s to 60 s, and its slave's log
    ends at byte 150; then `calls`, from 30 s on, are made."""
    r = Served()
    r.sends(1, 0, byte=0)
    r.sends(2, 1, byte=100)
    r.says(3, "b0-1", acting=False)
    r.act(10, "kill", "b0-0")
    r.says(25, "b0-1", acting=True, end=150)
    for call in calls:
        call(r)
    r.act(60, "start", "b0-0")
    return r


def unread() -> Served:
    """Every poll fails."""
    return served(*(partial(Served.reads, at=at, end=None) for at in (30, 31, 32, 33)))


def refused_offset() -> Served:
    """A commit is answered with 1."""
    return served(lambda r: r.asks(30, COMMIT_OFFSET, 1))


def rejoined(*ends: int, isolated: bool = False, also: str = "") -> Told:
    """A slave is paused until 10 s, and its log ends at these bytes from 15 s on, every 5 s, that
    of its master at byte 100 from 14 s on. `also`: another act before."""
    r = Told()
    r.act(1, "pause", "b0-1")
    if also:
        r.act(2, also, "b0-0")
    r.act(10, "resume", "b0-1")
    r.says(14, "b0-0", acting=False, isolated=isolated, end=100)
    for n, end in enumerate(ends):
        r.says(15 + 5 * n, "b0-1", acting=False, end=end)
    r.act(70, "pause", "n0")
    return r


def joined(
    *,
    copying_at: float = 99,
    listed_at: float = 12,
    cut: Sequence[str] = (),
    masterless: bool = False,
) -> Offsets:
    """A slave is started at 10 s, listed at `listed_at` and copies from `copying_at` on, asked each
    second. `cut`: two nodes that are parted meanwhile; `masterless`: so is the table at 11 s."""
    r = Offsets()
    r.act(5, "kill", "b0-1")
    if cut:
        r.cut(6, *cut)
    r.act(10, "start", "b0-1")
    for at in range(11, 20):
        master = () if masterless and at == 11 else ("0",)
        r.lists(at, *master, *(("1",) if at >= listed_at else ()))
        r.says(at + 0.5, "b0-1", acting=False, copying=at + 0.5 >= copying_at)
    r.act(20, "pause", "n0")
    return r


def delivered(
    delays: Delays | None,
    *,
    node: str = "b0-0",
    isolated: bool = False,
    times: int = 2,
    strikes: str = "",
) -> Told:
    """A broker says so often how far its delay levels are; `strikes`: a node in between."""
    r = Told()
    for n in range(times):
        if n and strikes:
            r.act(n, "restart", strikes)
        of = msgspec.UNSET if delays is None else delays
        r.says(n + 0.5, node, acting=False, isolated=isolated, delays=of)
    return r
