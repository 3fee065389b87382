"""Histories of a set without controllers, whose master is gone for a while."""

from typing import Any

import msgspec
from history_recorder import SECOND_NS, Recorder

from maxq.histories.observed import (
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
    ReplicaView,
    RouteView,
    encoded,
)
from maxq.histories.op import NEMESIS, Op


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

    def says(
        self, at: float, node: str, *, acting: bool, isolated: bool | msgspec.UnsetType = False
    ) -> int:
        self.now = at
        view = ReplicaView(
            node=node, set="b0", address=f"{node}:1", id=None, leads=False, epochs=(), end=0,
            confirmed=None, acting=acting, isolated=isolated,
        )  # fmt: skip
        return self.op("ok", 9, OBSERVE_REPLICA, {"node": node}, encoded(view))

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
