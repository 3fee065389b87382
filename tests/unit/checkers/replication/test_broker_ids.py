"""S1 and S2: who held which id, over restarts, removals of stores and answers that never came."""

from typing import Any

import pytest
from history_recorder import Recorder

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.broker_ids import BrokerIds
from maxq.histories.observed import ControllerView, ReplicaView, SetView, encoded
from maxq.histories.op import NEMESIS

CONTEXT = Context(broker_sets={"b0": ("b0-0", "b0-1")})


def judge(r: Recorder, context: Context = CONTEXT) -> Verdict:
    return BrokerIds().check(r.history, context)


def names(verdict: Verdict) -> list[str]:
    return [a.name for a in verdict.anomalies]


class Set(Recorder):
    """A broker set with its observers: process 8 asks brokers, 9 asks controllers."""

    def says(self, node: str, broker_id: int | None, process: int = 8) -> int:
        view = ReplicaView(
            node=node, set="b0", address=f"{node}:1", id=broker_id, leads=False,
            epochs=(), end=0, confirmed=None,
        )  # fmt: skip
        return self.op("ok", process, "observe-replica", {"node": node}, encoded(view))

    def table(self, *ids: int, address: str = "") -> int:
        held = SetView(
            master=1, master_address="a", master_epoch=1, sync_state_set=(1,),
            sync_state_set_epoch=1, replicas={str(i): address or f"x{i}:1" for i in ids},
        )  # fmt: skip
        view = ControllerView(node="c0", sets={"b0": held})
        return self.op("ok", 9, "observe-controller", {"node": "c0"}, encoded(view))

    def wipe(self, node: str, op_type: Any = "ok", process: int = 1) -> int:
        return self.op(op_type, process, "wipe", {"node": node}, {"node": node})

    def apply(self, code: str, broker_id: int | None, op_type: Any = "ok", process: int = 2) -> int:
        asked = {"set": "b0", "code": code}
        got = asked if broker_id is None else {**asked, "id": broker_id}
        return self.op(op_type, process, "apply-id", asked, got)

    def join(self, node: str, broker_id: int, process: int = 3) -> int:
        done = {"node": node, "set": "b0", "id": broker_id}
        return self.op("ok", process, "join", {"node": node}, done)


def steady() -> Set:
    """Two brokers that keep their ids over a restart of one."""
    r = Set()
    r.says("b0-0", 1)
    r.says("b0-1", 2)
    r.fault("kill", **{"b0-1": True})
    r.fault("start", **{"b0-1": True})
    r.says("b0-0", 1)
    return r


def test_ids_that_stay_are_valid_with_evidence() -> None:
    r = steady()
    r.says("b0-1", 2)
    r.table(1, 2)

    verdict = judge(r)
    assert (verdict.valid, verdict.claims, verdict.anomalies) == (True, ("S1", "S2"), ())
    assert verdict.counts["owners"] == 2
    assert verdict.counts["sets-without-ghosts-proved"] == 1


def test_a_broker_that_comes_back_as_somebody_else_is_named_with_the_fault_before() -> None:
    """S2: an id survives a restart."""
    r = steady()
    now = r.says("b0-1", 3)

    [found] = judge(r).anomalies
    assert (found.claim, found.name, found.signature) == ("S2", "id-changed", "S2/id-changed")
    assert found.ops == (3, now)
    assert found.detail == {"set": "b0", "owner": "node b0-1", "ids": [2, 3]}
    assert "node b0-1 held id 2 in op 3 and id 3" in found.story
    assert "kill of b0-1" in found.story


def test_a_wiped_broker_has_a_new_id_and_its_old_one_stays_registered() -> None:
    r = steady()
    r.says("b0-1", 2)
    r.wipe("b0-1")
    r.says("b0-1", 3)
    r.says("b0-1", None)
    r.table(1, 2, 3, address="same:1")

    verdict = judge(r)
    assert verdict.valid is True
    assert verdict.counts["addresses-shared"] == 2
    assert verdict.counts["sets-without-ghosts-proved"] == 1


def test_an_id_is_not_given_out_again_to_a_wiped_broker() -> None:
    """S1: ids are given out once, also to the same machine."""
    r = steady()
    r.says("b0-1", 2)
    r.wipe("b0-1")
    r.says("b0-1", 2)

    [found] = judge(r).anomalies
    assert (found.claim, found.name) == ("S1", "duplicate-id")
    assert "store had been removed in between" in found.story


@pytest.mark.parametrize("op_type", ["info", "invoke"])
def test_a_removal_with_unknown_outcome_leaves_both_possible(op_type: str) -> None:
    r = steady()
    r.says("b0-1", 2)
    if op_type == "info":
        r.wipe("b0-1", "info")
    else:
        r.begin(1, "wipe", {"node": "b0-1"})
    for broker_id in (2, 3, 2):
        r.says("b0-1", broker_id)
    r.table(1, 2, 3, 4)

    verdict = judge(r)
    assert (verdict.valid, verdict.anomalies) == (True, ())
    assert verdict.counts["sets-without-ghosts-proved"] == 0


def test_a_removal_that_failed_changes_nothing() -> None:
    r = steady()
    r.says("b0-1", 2)
    r.wipe("b0-1", "fail")
    r.says("b0-1", 3)
    assert names(judge(r)) == ["id-changed"]


def test_a_nemesis_may_remove_stores_too() -> None:
    r = steady()
    r.says("b0-1", 2)
    r.fault("wipe", **{"b0-1": True})
    r.says("b0-1", 3)
    assert judge(r).valid is True

    r.begin(NEMESIS, "wipe", "one")  # never completed: anybody's
    r.says("b0-0", 9)
    assert judge(r).valid is True


def test_an_answer_that_overlaps_a_removal_can_be_of_either_incarnation() -> None:
    r = steady()
    r.says("b0-1", 2)
    r.begin(8, "observe-replica", {"node": "b0-1"})
    r.wipe("b0-1")
    asked = r.says("b0-1", 3, process=7)
    view = r.ops[asked].value
    r.end("ok", 8, "observe-replica", {**view, "id": 3})
    assert judge(r).valid is True

    r.says("b0-1", 2)
    assert set(names(judge(r))) == {"id-changed", "duplicate-id"}


@pytest.mark.parametrize("how", ["node", "applicant", "join"])
def test_two_owners_of_one_id(how: str) -> None:
    """S1: no two hold one id, whoever they are."""
    r = steady()
    if how == "node":
        ops = (1, r.says("b0-1", 1))  # id 1 is that of b0-0
    elif how == "applicant":
        ops = (3, r.apply("code", 2))
    else:
        ops = (3, r.join("b0-2", 2))

    found = next(a for a in judge(r).anomalies if a.name == "duplicate-id")
    assert found.claim == "S1"
    assert set(ops) <= set(found.ops)


def test_applicants_have_ids_of_their_own() -> None:
    r = steady()
    r.apply("x", 3)
    r.apply("y", 4)
    r.apply("x", 3)
    r.table(1, 2, 3, 4)
    assert judge(r).valid is True

    r.apply("x", 5)
    assert names(judge(r)) == ["id-changed"]
    r.apply("z", 4)
    assert names(judge(r)) == ["id-changed", "duplicate-id"]


def test_an_id_of_nobody_is_a_ghost() -> None:
    """S2: somebody was given an id and forgot it."""
    r = steady()
    last = r.table(1, 2, 3)

    [found] = judge(r).anomalies
    assert (found.claim, found.name, found.ops[-1]) == ("S2", "ghost-replica", last)
    assert found.detail == {"set": "b0", "id": 3, "held": [1, 2], "excused": 0}


def test_ghosts_are_not_judged_where_somebody_may_own_them() -> None:
    unanswered, powerless, wiped_unseen, stray = steady(), steady(), steady(), steady()
    unanswered.apply("x", None, "info")
    powerless.fault("power-loss", **{"b0-0": True})
    wiped_unseen.wipe("b0-1")
    stray.begin(3, "join", {"node": "b9-9"})
    for r in (unanswered, powerless, wiped_unseen, stray):
        r.table(1, 2, 3)
        assert judge(r).valid is True
    early = steady()
    early.table(1, 2, 3)
    early.fault("kill", **{"b0-0": True})
    assert judge(early).valid is True


def test_more_ids_of_nobody_than_anybody_may_own_are_ghosts() -> None:
    """Each owner that was never asked excuses one."""
    unanswered, wiped_unseen, wiped_perhaps, stray = steady(), steady(), steady(), steady()
    unanswered.apply("x", None, "info")
    wiped_unseen.wipe("b0-1")
    wiped_perhaps.wipe("b0-1", "info")
    stray.begin(3, "join", {"node": "b9-9"})
    for r in (unanswered, wiped_unseen, wiped_perhaps, stray):
        r.table(1, 2, 3, 4)
        verdict = judge(r)
        assert names(verdict) == ["ghost-replica", "ghost-replica"]
        assert "and 1 more may have one of 3 and 4" in verdict.anomalies[0].story
        assert verdict.counts["sets-without-ghosts-proved"] == 1
    nobody_knows = steady()
    nobody_knows.begin(NEMESIS, "wipe", "one")
    nobody_knows.table(1, 2, 3, 4, 5)
    assert judge(nobody_knows).valid is True


def test_an_applicant_that_failed_owns_nothing() -> None:
    r = steady()
    r.apply("x", None, "fail")
    r.table(1, 2, 3)
    assert names(judge(r)) == ["ghost-replica"]


def test_without_owners_there_is_no_evidence() -> None:
    verdict = judge(Recorder())
    assert verdict.valid == "unknown"
    assert verdict.reason == "no broker was seen with an id; no owner of an id was seen twice"
    assert "seen twice" in verdict.reason


@pytest.mark.parametrize(
    ("f", "value"),
    [
        ("observe-replica", {"node": 1}),
        ("observe-replica", None),
        ("join", {"node": "b0-1"}),
        ("apply-id", ["b0", 1]),
        ("wipe", None),
        ("observe-controller", {"node": "c0", "sets": [1]}),
    ],
)
def test_a_value_of_another_shape_is_unknown(f: str, value: Any) -> None:
    r = steady()
    r.op("ok", 5, f, value, value)
    verdict = judge(r)
    assert verdict.valid == "unknown"
    assert verdict.reason.startswith("W9")


def test_a_key_that_is_no_id_is_unknown() -> None:
    r = steady()
    at = r.table(1, 2)
    r.ops[at].value["sets"]["b0"]["replicas"]["x"] = "y"
    assert judge(r).reason.startswith("W9")
