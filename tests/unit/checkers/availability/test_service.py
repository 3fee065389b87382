"""S13: every queue is probed after the last heal, and served within the bound."""

from typing import Any

import pytest
from history_recorder import SECOND_NS, Recorder

from maxq.checkers.availability.service import Service
from maxq.checkers.core.api import Context, Verdict
from maxq.histories.grounds import Ground, declaration
from maxq.histories.observed import RouteView, encoded
from maxq.histories.op import NEMESIS, Op

CONTEXT = Context(recovery_ns=20 * SECOND_NS)


class Probing(Recorder):
    """A history whose last heal is over at 10 s, and whose probes are at times of their own."""

    now = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self.at(8).fault("kill", **{"b0-0": True})
        self.at(10).fault("start", **{"b0-0": True})
        self.begin(NEMESIS, "await-recovery", None)

    def declares(self, *grounds: Ground) -> None:
        """It begins with a declaration."""
        r = [declaration(grounds), *self.ops]
        self.ops = [Op(o.type, o.process, o.f, o.value, None, i, o.time, o.ext)
                    for i, o in enumerate(r)]  # fmt: skip

    def at(self, seconds: float) -> "Probing":
        self.now = seconds
        return self

    def _add(self, op_type: Any, process: Any, f: str, value: Any, ext: dict[str, Any]) -> int:
        index = len(self.ops)
        time = round(self.now * SECOND_NS)
        self.ops.append(Op(op_type, process, f, value, None, index, time, ext or None))
        return index

    def probe(self, seconds: float, came: str = "read", key: int = 0) -> "Probing":
        """A message that was sent and read back, only taken, or refused."""
        self.at(seconds)
        self._number += 1
        n, begun = self._number, [["send", key, self._number]]
        self.begin(5, "send", begun, probe=True)
        if came == "refused":
            self.end("fail", 5, "send", begun, probe=True)
            return self
        self.end("ok", 5, "send", [["send", key, [n, n]]], probe=True, node="b0", broker="x:1")
        what = {"key": key, "value": n, "offset": n}
        self.op("ok" if came == "read" else "fail", 5, "probe", what, what)
        return self

    def waited(self, holds: bool = True, after_ms: int = 800, **crashed: int) -> "Probing":
        found = {"holds": holds, "after_ms": after_ms, "crashed": crashed}
        self.end("info", NEMESIS, "await-recovery", {"cluster": found})
        return self


def judge(r: Recorder) -> Verdict:
    return Service().check(r.history, CONTEXT)


def test_three_messages_in_a_row_show_that_a_queue_is_served() -> None:
    r = Probing()
    for second in (11, 12, 13):
        r.probe(second)
    verdict = judge(r.waited())
    assert (verdict.valid, verdict.of("kept")) == (True, ("S13",))
    assert verdict.counts == {
        "recovery-ms": 800,
        "queues-probed": 1,
        "queues-served": 1,
        "probes": 3,
        "probes-acknowledged": 3,
        "served-after-ms": 1000,
    }


def test_a_cluster_that_takes_one_message_in_many_does_not_serve() -> None:
    """It agrees on a master, and takes a message now and then: 3 of 75."""
    r = Probing()
    for number in range(75):
        r.probe(11 + number / 3, "read" if number % 25 == 0 else "refused")
    verdict = judge(r.waited())
    [found] = verdict.anomalies
    assert (found.signature, found.claim) == ("S13/not-writable", "S13")
    assert found.detail == {
        "set": "b0",
        "queues": [0],
        "tries": 75,
        "acknowledged": 3,
        "after-ms": 25_666,
        "bound-ms": 20_000,
    }
    assert "A probe sent 75 messages within 25.7 s: 3 were taken" in found.story


def test_what_is_taken_and_never_shown_is_not_served() -> None:
    r = Probing()
    for second in range(11, 36):
        r.probe(second, "taken")
    assert judge(r.waited()).of("broken") == ("S13",)


def test_a_queue_that_is_served_too_late() -> None:
    r = Probing()
    for second in range(11, 32):
        r.probe(second, "refused")
    for second in (32, 33, 34):
        r.probe(second)
    [found] = judge(r.waited()).anomalies
    assert found.detail["after-ms"] == 22_000


def test_each_queue_must_be_served() -> None:
    r = Probing()
    for second in range(11, 36):
        r.probe(second)
        r.probe(second, "refused", key=1)
    [found] = judge(r.waited()).anomalies
    assert found.detail["queues"] == [1]


@pytest.mark.parametrize("why", ["too short", "no proof", "no wait", "no probe"])
def test_what_cannot_be_judged_is_said(why: str) -> None:
    r = Probing()
    if why == "no proof":
        r = Probing()
        r.ops = r.ops[:2]
        r.at(10).fault("start", **{"b0-0": False})
        r.begin(NEMESIS, "await-recovery", None)
    if why == "no probe":
        r.declares()
    else:
        for second in range(11, 25 if why == "too short" else 36):
            r.probe(second, "refused")
    if why != "no wait":
        r.waited()
    assert judge(r).of("not judged") == ("S13",)


@pytest.mark.parametrize(
    ("holds", "after_ms", "status"),
    [(True, 800, "kept"), (False, 20_000, "broken"), (True, 22_000, "broken"),
     (False, 5_000, "not judged")],
)  # fmt: skip
def test_a_history_without_probes_is_judged_by_the_wait(
    holds: bool, after_ms: int, status: Any
) -> None:
    """Of a version that had none: whether name servers knew a master that answers."""
    verdict = judge(Probing().at(52).waited(holds, after_ms))
    assert verdict.of(status) == ("S13",)


@pytest.mark.parametrize("value", [None, {"cluster": 1}, {"cluster": {"holds": "yes"}}])
def test_an_odd_wait_is_not_judged(value: Any) -> None:
    r = Probing()
    r.end("info", NEMESIS, "await-recovery", value)
    assert judge(r).reason.startswith("W9")


def test_of_what_is_never_served_it_says_whose_it_is_and_who_lists_no_master() -> None:
    r = Probing()
    r.declares(("probe", 0, "b0"), ("probe", 1, "b1"))
    for second in range(11, 40):
        r.probe(second, key=1)
        r.probe(second, "refused")
    for node, roles in (("n0", ("0", "1")), ("n0", ("1",)), ("n1", ("0", "1"))):
        view = RouteView(node=node, sets={"b0": {role: f"x:{role}" for role in roles}})
        r.op("ok", 6, "observe-route", {"node": node}, encoded(view))
    last = max(op.index for op in r.ops if op.f == "observe-route" and op.value["node"] == "n0")
    (found,) = judge(r.waited(holds=False)).anomalies
    assert found.detail["set"] == "b0"
    assert f"In its last answer n0 lists no master of the set (op {last})." in found.story
    assert last in found.ops
    assert "n1" not in found.story
