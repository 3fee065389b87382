"""Acting: what slaves say in calm times, in which their master is gone or there."""

from typing import Any

import pytest
from history_recorder import SECOND_NS, Recorder

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.pairs.acting import Acting
from maxq.histories.observed import OBSERVE_REPLICA, ReplicaView, encoded
from maxq.histories.op import NEMESIS, Op

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1", "b0-2")},
    shrink_ns=8 * SECOND_NS,
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)


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

    def says(self, at: float, node: str, *, acting: bool) -> int:
        self.now = at
        view = ReplicaView(
            node=node, set="b0", address=f"{node}:1", id=None, leads=False, epochs=(), end=0,
            confirmed=None, acting=acting,
        )  # fmt: skip
        return self.op("ok", 9, OBSERVE_REPLICA, {"node": node}, encoded(view))


def judge(r: Recorder) -> Verdict:
    return Acting().check(r.history, CONTEXT)


def killed(*answers: tuple[float, str, bool]) -> Told:
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


@pytest.mark.parametrize(
    ("answer", "claim", "name"),
    [((19, "b0-1", False), "A1", "nobody-acts"), ((19, "b0-2", True), "A2", "second-acts"),
     ((40, "b0-1", True), "A3", "acts-beside-master")],
)  # fmt: skip
def test_who_acts_where_it_must_not_is_blamed(
    answer: tuple[float, str, bool], claim: str, name: str
) -> None:
    verdict = judge(killed(answer))
    assert [(a.claim, a.name) for a in verdict.anomalies] == [(claim, name)]
    assert verdict.of("broken") == (claim,)


def test_what_is_as_it_should_be_is_kept() -> None:
    r = killed((19, "b0-1", True), (19, "b0-2", False), (40, "b0-1", False))
    assert judge(r).of("kept") == ("A1", "A2", "A3")


@pytest.mark.parametrize("answer", [(12, "b0-1", False), (31, "b0-1", True), (9, "b0-1", True)])
def test_within_the_bound_nothing_is_judged(answer: tuple[float, str, bool]) -> None:
    assert judge(killed(answer)).of("no occasion") == ("A1", "A2", "A3")
