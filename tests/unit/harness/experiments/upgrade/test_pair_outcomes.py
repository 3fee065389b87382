"""What observers' answers say of a pair whose master was killed and started, then paused."""

from typing import Any

import pytest

from maxq.checkers.evidence.faults import faults
from maxq.harness.experiments.upgrade.pair_outcomes import Absence, pair_outcome
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView, RouteView, encoded
from maxq.histories.op import Op

MASTER, SLAVE = "198.18.0.32:10911", "198.18.0.48:10911"
WHOLE, ALONE = {"0": MASTER, "1": SLAVE}, {"1": SLAVE}
ACTS = {"kill": "kill", "back": "start", "pause": "pause", "resume": "resume"}
S = 1_000_000_000


class Told:
    """Answers and acts, each of them a tenth of a second long."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def _add(self, kind: Any, process: Any, f: str, value: Any, at_s: float) -> None:
        time = round(at_s * S)
        self.ops.append(Op(kind, process, f, value, time=time, index=len(self.ops)))

    def act(self, name: str, at_s: float) -> None:
        self._add("info", "nemesis", ACTS[name], name, at_s)
        self._add("info", "nemesis", ACTS[name], {"b0-0": {"holds": True}}, at_s + 0.1)

    def route(
        self, at_s: float, listed: dict[str, str], shown: dict[str, str] | None = None
    ) -> None:
        view = RouteView(
            node="n0", sets={"b0": listed}, perms={"T": {"b0": 6}},
            shown={"T": {"b0": shown}} if shown else {},
        )  # fmt: skip
        self._add("invoke", 0, "observe-route", None, at_s)
        self._add("ok", 0, "observe-route", encoded(view), at_s + 0.1)

    def slave(self, at_s: float, *, acting: bool) -> None:
        view = ReplicaView(
            node="b0-1", set="b0", address=SLAVE, id=1, leads=False, epochs=(), end=0,
            confirmed=None, acting=acting,
        )  # fmt: skip
        self._add("invoke", 1, "observe-replica", None, at_s)
        self._add("ok", 1, "observe-replica", encoded(view), at_s + 0.1)

    def outcome(self) -> Any:
        history = History(self.ops)
        return pair_outcome(history, {str(fault.request): fault for fault in faults(history)})


def killed(*, shown: dict[str, str] | None, back: bool = True) -> Told:
    """A master is killed at 10 s, its slave acts at 12 s, and it is started at 30 s."""
    told = Told()
    told.route(5, WHOLE)
    told.slave(6, acting=False)
    told.act("kill", 10)
    told.route(11, ALONE, shown)
    told.slave(12, acting=True)
    told.act("back", 30)
    told.route(31, ALONE, shown)
    if back:
        told.route(33, WHOLE)
    return told


@pytest.mark.parametrize(
    ("shown", "said"), [({"0": SLAVE}, "slave as master"), (None, "slave alone")]
)
def test_who_acted_who_was_shown_and_who_came_back(shown: dict[str, str] | None, said: str) -> None:
    told = killed(shown=shown)
    told.act("pause", 50)
    told.route(51, WHOLE)
    told.slave(52, acting=False)
    told.act("resume", 65)
    found = told.outcome()
    assert (found.killed.acted_ms, found.killed.shown) == (2100.0, said)
    assert found.back_ms == 3100.0
    assert found.paused == Absence(acted_ms=None, shown="master")
    assert found.acts
    assert "Master paused: the slave does not act, routes go on showing the master" in found.words


def test_a_slave_that_is_shown_as_master_is_no_master_that_is_back() -> None:
    told = killed(shown={"0": SLAVE}, back=False)
    told.route(34, {"0": SLAVE})
    found = told.outcome()
    assert found.back_ms is None
    assert not found.acts
    assert found.words.endswith("The master does not come back")


def test_what_is_seen_once_the_master_is_paused_is_no_return() -> None:
    told = killed(shown=None, back=False)
    told.act("pause", 50)
    told.route(55, WHOLE)
    told.slave(56, acting=True)
    told.act("resume", 65)
    found = told.outcome()
    assert found.back_ms is None
    assert found.paused.acted_ms == 6100.0


def test_a_slave_that_does_not_answer_is_not_said_not_to_act() -> None:
    told = Told()
    told.slave(6, acting=False)
    told.act("kill", 10)
    told.route(11, ALONE)
    told.act("back", 30)
    assert told.outcome().words.startswith("master killed: the slave does not answer, ")


def test_nothing_is_said_of_a_master_that_was_not_killed() -> None:
    told = Told()
    told.route(5, WHOLE)
    assert told.outcome() is None
