"""Brokers of one container: each comes back for itself, and none takes another one along."""

from typing import Any

import msgspec
import pytest
from history_recorder import SECOND_NS
from pair_histories import Told

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.routing.shared_processes import SharedProcesses
from maxq.histories.fault_facts import ADD_BROKER, AWAIT_RECOVERY, FAIL_STORE
from maxq.histories.observed import OBSERVE_REPLICA, OBSERVE_ROUTE, RouteView, encoded
from maxq.histories.op import NEMESIS

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1"), "b1": ("b1-0", "b1-1")},
    containers={"k0": ("b0-0", "b1-1"), "k1": ("b0-1", "b1-0")},
    shrink_ns=8 * SECOND_NS,
    recovery_ns=20 * SECOND_NS,
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)
BOTH = {"b0-0": {"holds": True}, "b1-1": {"holds": True}}


class Contained(Told):
    """Two crossed containers."""

    def together(self, at: float, f: str) -> None:
        """An act on the container k0."""
        self.now = at
        self.begin(NEMESIS, f, f"{f}@{at}")
        self.end("info", NEMESIS, f, BOTH)

    def lives(self, at: float, node: str, *, acting: bool = False, leads: bool = False) -> None:
        self.now = at
        view: dict[str, Any] = {
            "node": node, "set": node[:2], "address": f"{node}:1", "id": None, "leads": leads,
            "epochs": [], "end": 0, "confirmed": None, "acting": acting, "isolated": False,
        }  # fmt: skip
        self.op("ok", 9, OBSERVE_REPLICA, {"node": node}, view)

    def table(self, at: float, **sets: dict[str, str]) -> None:
        self.now = at
        self.op("ok", 8, OBSERVE_ROUTE, {"node": "n0"}, encoded(RouteView(node="n0", sets=sets)))

    def looked_at(self, at: float, **crashed: int) -> "Contained":
        """The look at all nodes after the last heal."""
        self.now = at
        self.begin(NEMESIS, AWAIT_RECOVERY, "end")
        cluster = {"after_ms": 1, "crashed": crashed, "excused": {}, "silent": [], "nodes": 4}
        self.end("info", NEMESIS, AWAIT_RECOVERY, {"cluster": {"holds": True, **cluster}})
        return self


def judge(r: Contained) -> Verdict:
    return SharedProcesses().check(r.history, CONTEXT)


def returned(after_s: int, **sets: dict[str, str]) -> Contained:
    """k0 was killed and started, and then a name server lists this."""
    r = Contained()
    r.lives(1, "b1-1")
    r.together(10, "kill")
    r.together(20, "start")
    r.lives(20 + after_s - 1, "b1-1")
    r.table(20 + after_s, **sets)
    r.lives(20 + after_s + 1, "b1-1")
    return r


def unlisted() -> Contained:
    return returned(21, b1={"0": "b1-0:1"})


@pytest.mark.parametrize(("listed", "broken"), [("1", ()), ("2", ("B8",)), ("", ("B8",))])
def test_who_returns_is_listed_in_its_role(listed: str, broken: tuple[str, ...]) -> None:
    roles = {"0": "b1-0:1"} | ({listed: "b1-1:1"} if listed else {})
    verdict = judge(returned(21, b1=roles))
    assert verdict.of("broken") == broken
    assert judge(returned(19, b1={"0": "b1-0:1"})).of("no occasion") == ("B8", "B14")


@pytest.mark.parametrize(("after_s", "broken"), [(15, ()), (25, ("B8",))])
def test_with_controllers_a_master_of_late_may_be_missing(
    after_s: int, broken: tuple[str, ...]
) -> None:
    """It may not know of its successor yet."""
    settings = {"broker:enableControllerMode": "true"}
    r = Contained()
    r.together(10, "kill")
    r.together(20, "start")
    for second in range(24, 50, 2):
        r.table(second, b1={"0": "b1-1:1"})
        r.lives(second + 1, "b1-1", leads=True)
    r.lives(51, "b1-1")
    r.table(50 + after_s, b1={"0": "b1-0:1"})
    r.lives(51 + after_s, "b1-1")
    context = msgspec.structs.replace(CONTEXT, settings=settings)
    assert SharedProcesses().check(r.history, context).of("broken") == broken


def test_who_was_started_alone_is_another_claims() -> None:
    r = Contained()
    r.act(10, "kill", "b1-1")
    r.act(20, "start", "b1-1")
    r.lives(40, "b1-1")
    r.table(41, b1={})
    r.lives(42, "b1-1")
    assert judge(r).of("no occasion") == ("B8", "B14")


@pytest.mark.parametrize(("acting", "status"), [(True, "kept"), (False, "broken")])
def test_a_slave_elsewhere_acts_for_a_master_whose_container_ended(
    acting: bool, status: str
) -> None:
    r = Contained()
    r.together(10, "kill")
    r.lives(19, "b0-1", acting=acting)
    r.together(30, "start")
    r.act(60, "pause", "n0")
    assert judge(r).of(status) == ("B8",)  # type: ignore[arg-type]


def failed() -> Contained:
    """The disk fails b0-0 alone."""
    r = Contained()
    r.lives(1, "b1-1")
    r.act(10, FAIL_STORE, "b0-0")
    return r


def test_a_neighbour_that_answers_was_not_taken_along() -> None:
    r = failed()
    r.lives(12, "b1-1")
    r.act(20, ADD_BROKER, "b0-0")
    assert judge(r.looked_at(50)).of("kept") == ("B14",)


def taken_along() -> Contained:
    return failed().looked_at(50, **{"b1-1": 1})


def test_a_neighbour_that_is_found_ended_was() -> None:
    verdict = judge(taken_along())
    [found] = verdict.anomalies
    assert (found.claim, found.name) == ("B14", "neighbour-ended")
    assert found.detail == {"node": "b1-1", "beside": ["b0-0"]}


def test_what_else_was_done_to_the_neighbour_excuses() -> None:
    r = failed()
    r.together(12, "kill")
    assert judge(r.looked_at(50, **{"b1-1": 1})).of("no occasion") == ("B8", "B14")


def test_without_neighbours_there_is_nothing_to_judge() -> None:
    alone = msgspec.structs.replace(CONTEXT, containers={})
    r = failed().looked_at(50, **{"b1-1": 1})
    verdict = SharedProcesses().check(r.history, alone)
    assert verdict.of("no occasion") == ("B8", "B14")
