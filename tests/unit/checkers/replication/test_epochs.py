"""S3, S4, S5: by the order of operations, and by the numbers that states have."""

from typing import Any

import pytest
from cluster_recorder import Cluster, broker, fail_over, set_view, table

from maxq.checkers.core.api import Anomaly, Context, Verdict
from maxq.checkers.replication.epochs import Epochs


def judge(r: Cluster, **context: Any) -> Verdict:
    return Epochs().check(r.history, Context(**context))


def only(r: Cluster, **context: Any) -> Anomaly:
    verdict = judge(r, **context)
    assert verdict.valid is False
    [found] = verdict.anomalies
    assert found.signature == f"{found.claim}/{found.name}"
    return found


def test_a_fail_over_is_valid_with_evidence_for_every_claim() -> None:
    verdict = judge(fail_over())
    assert (verdict.valid, verdict.claims) == (True, ("S3", "S3b", "S4", "S5", "S7", "S8c"))
    assert verdict.counts["elections-judged"] == 1
    assert verdict.counts["master-epochs"] == 2
    assert verdict.counts["answers-ordered"] == 2


def test_a_master_epoch_that_goes_back_is_told_with_who_said_so() -> None:
    """S3."""
    r = fail_over()
    last = r.controllers(set_view(1, 6, 1, 1), node="c1")

    verdict = judge(r)
    found = next(a for a in verdict.anomalies if a.claim == "S3")
    assert (found.name, found.ops) == ("epoch-went-back", (5, 7, last))
    assert found.detail == {"set": "b0", "epochs": [2, 1], "nodes": ["c0", "c1"]}
    assert "went back from 2 to 1" in found.story
    assert "kill of b0-0" in found.story


def test_a_sync_state_set_epoch_that_goes_back() -> None:
    """S4."""
    r = fail_over()
    last = r.controllers(set_view(2, 4, 2, 2))

    found = only(r)
    assert (found.claim, found.name) == ("S4", "sync-state-set-went-back")
    assert last in found.ops
    assert found.detail["epochs"] == [5, 4]


def test_answers_that_overlap_may_come_in_any_order() -> None:
    r = fail_over()
    r.begin(7, "observe-controller", {"node": "c0"})
    r.controllers(set_view(3, 6, 2, 2))
    r.end("ok", 7, "observe-controller", table(set_view(2, 5, 2, 2, 3)))
    assert judge(r).valid is True


def test_an_old_leader_of_apache_rocketmq_may_answer_from_old_state() -> None:
    r = fail_over()
    r.controllers(set_view(1, 3, 1, 1, 2, 3), node="c1")
    assert judge(r).valid is False
    assert judge(r, target="rocketmq").valid is True

    r.controllers(set_view(1, 3, 1, 1, 2, 3), node="c0")
    assert judge(r, target="rocketmq").valid is False


@pytest.mark.parametrize("other", [set_view(2, 5, 2, 2, 1), set_view(3, 5, 2, 2)])
def test_two_sets_under_one_number_are_a_fork(other: Any) -> None:
    """S4: every change has a number of its own."""
    r = fail_over()
    last = r.controllers(other)

    found = only(r)
    assert (found.claim, found.name, found.ops[-1]) == ("S4", "sync-state-set-forked", last)
    assert found.detail["sync-state-sets"] == [[2, 3], list(other.sync_state_set)]


def test_two_masters_under_one_number_are_a_fork_too() -> None:
    r = fail_over()
    r.controllers(set_view(3, 5, 3, 2, 3))
    elected, fork = judge(r).anomalies
    assert (fork.name, fork.detail["masters"]) == ("sync-state-set-forked", [2, 3])
    assert elected.name == "master-outside-set"  # the set of epoch 4 was {2}


def test_no_master_for_a_while_is_no_fork() -> None:
    """A failed election of Java: no master, the master epoch grows, the set stays."""
    r = fail_over()
    r.controllers(set_view(3, 5, None, 2, 3))
    r.controllers(set_view(4, 6, 3, 3))
    verdict = judge(r)
    assert (verdict.valid, verdict.counts["elections-judged"]) == (True, 2)


def test_two_masters_in_one_epoch_by_controllers() -> None:
    """S5: an election that keeps its epoch."""
    r = fail_over()
    last = r.controllers(set_view(2, 6, 3, 3))

    found = only(r)
    assert (found.claim, found.name, found.ops) == ("S5", "two-masters", (5, 7, last))
    assert found.detail["ids"] == [2, 3]


@pytest.mark.parametrize("broker_id", [3, None])
def test_two_brokers_that_lead_in_one_epoch(broker_id: int | None) -> None:
    """S5, by their own words; also by a controller's and a broker's."""
    r = fail_over()
    last = r.broker("b0-2", broker_id, (1, 0, 10), (2, 10, 15), leads=True)
    assert judge(r).valid is True, "it may have won the next epoch at once"
    r.controllers(set_view(2, 5, 2, 2, 3))
    found = only(r)
    assert (found.claim, found.ops[-1]) == ("S5", last)

    alone = Cluster()
    alone.controllers(set_view(2, 4, 2, 2))
    alone.controllers(set_view(2, 4, 2, 2))
    alone.broker("b0-2", broker_id, (2, 0, 15), leads=True)
    alone.controllers(set_view(2, 4, 2, 2))
    assert judge(alone).valid is (broker_id is None)


@pytest.mark.parametrize(
    ("later", "accused"),
    [
        ([set_view(3, 6, 3, 3)], False),  # its own election, of which it has no entry
        ([set_view(3, 6, 1, 1)], True),  # not its own
        ([set_view(4, 7, 1, 1)], False),  # what came in between nobody saw
        ([set_view(3, 6, 1, 1), set_view(4, 7, 1, 1)], True),
        ([set_view(3, 6, None, 1), set_view(4, 7, 1, 1)], False),
    ],
)
def test_a_master_that_has_no_entry_of_its_own_epoch(later: list[Any], accused: bool) -> None:
    """RocketMQ notes none that begins where the one before it began."""
    r = Cluster()
    r.controllers(set_view(2, 5, 2, 1, 2, 3))
    for view in later[:-1]:
        r.controllers(view)
    r.broker("b0-2", 3, (1, 0, 10), (2, 10, 10), leads=True)
    r.controllers(later[-1])
    assert ("S5" in {a.claim for a in judge(r, target="rocketmq").anomalies}) is accused


def test_a_deposed_master_goes_on_leading_in_its_own_epoch() -> None:
    """S5' is never promised: there is no lease."""
    r = fail_over()
    r.broker("b0-0", 1, (1, 0, 12), leads=True)
    r.broker("b0-0", 1, leads=True)
    r.broker("b0-2", 3, (2, 10, 12))
    assert judge(r).valid is True


def test_a_change_of_the_set_is_no_election() -> None:
    r = Cluster()
    for view in (set_view(1, 1, 1, 1), set_view(1, 2, 1, 1, 2), set_view(1, 3, 1, 1)):
        r.controllers(view)
    verdict = judge(r)
    assert (verdict.valid, verdict.counts["elections-judged"]) == (True, 0)


def test_without_answers_there_is_no_evidence() -> None:
    r = Cluster()
    assert judge(r).valid == "unknown"
    r.controllers(set_view(1, 1, None, 1))
    verdict = judge(r)
    assert verdict.valid == "unknown"
    assert "no broker was seen leading" in verdict.reason
    assert "one after the other" in verdict.reason


def test_an_odd_value_is_unknown() -> None:
    r = fail_over()
    r.op("ok", 7, "observe-replica", None, {**broker("b0-0", 1), "epochs": [1]})
    assert judge(r).reason.startswith("W9")
