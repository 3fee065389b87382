"""S7: who is elected was in the SyncStateSet before; also where only an order names the change."""

from typing import Any

import pytest
from cluster_recorder import Cluster, fail_over, set_view
from profiles import settings

from maxq.checkers.core.api import Anomaly, Context, Verdict
from maxq.checkers.replication.epochs import Epochs
from maxq.histories.observed import GRANTED, Grant, encoded
from maxq.histories.op import NEMESIS


def judge(r: Cluster, **context: Any) -> Verdict:
    return Epochs().check(r.history, Context(**context))


def only(r: Cluster) -> Anomaly:
    [found] = judge(r).anomalies
    return found


def test_a_master_from_outside_the_set() -> None:
    """S7; not promised under P-UNCLEAN, and there measured."""
    r = Cluster()
    r.controllers(set_view(2, 4, 2, 2))
    r.controllers(set_view(1, 3, 1, 1, 3), process=7)  # seen late by an old leader
    found = next(a for a in judge(r, target="rocketmq").anomalies if a.claim == "S7")
    assert found.name == "master-outside-set"
    assert found.detail["sync-state-set"] == [1, 3]

    r = fail_over()
    r.controllers(set_view(3, 6, 1, 1))
    assert only(r).claim == "S7"
    measured = judge(r, settings=settings("P-UNCLEAN"))
    assert (measured.valid, measured.of("not promised")) == (True, ("S7",))
    assert measured.claims == ("S3", "S3b", "S4", "S5", "S8c")
    assert measured.counts["master-outside-set"] == 1
    assert measured.reason == "master-outside-set 1"


def test_a_master_that_its_own_set_lacks() -> None:
    r = fail_over()
    r.controllers(set_view(2, 6, 2, 3))
    r.controllers(set_view(2, 6, 2, 3))
    assert only(r).name == "master-outside-set"


def test_the_first_election_has_no_set_to_choose_from() -> None:
    r = Cluster()
    r.controllers(set_view(0, 0, None))
    r.controllers(set_view(1, 1, 3, 3))
    verdict = judge(r)
    assert verdict.valid is True
    assert verdict.claims == ("S3", "S3b", "S4", "S5")  # nobody was elected from a set


def ordered(r: Cluster, master: int, epoch: int, number: int) -> None:
    """An order to elect, and what was answered."""
    grant = Grant(set="b0", master=master, master_epoch=epoch, sync_state_set_epoch=number)
    r.begin(NEMESIS, "elect-master", "end/other")
    proof = {"holds": True, "elected": True, GRANTED: encoded(grant)}
    r.end("info", NEMESIS, "elect-master", {"b0-1": proof})


@pytest.mark.parametrize(("master", "valid"), [(2, True), (3, False)])
def test_the_answer_to_an_order_shows_an_unobserved_change(master: int, valid: bool) -> None:
    """The set has grown twice by the next observation."""
    r = Cluster()
    r.controllers(set_view(1, 3, 1, 1, 2))
    ordered(r, master, 2, 4)
    r.controllers(set_view(2, 6, master, 1, 2, 3))
    verdict = judge(r)
    assert (verdict.valid, verdict.counts["elections-judged"]) == (valid, 1)
    assert [a.name for a in verdict.anomalies] == ([] if valid else ["master-outside-set"])


def test_an_answer_with_a_later_number_than_the_election_is_no_violation() -> None:
    """A controller may answer after the set has grown already."""
    r = Cluster()
    r.controllers(set_view(1, 3, 1, 1, 2))
    r.controllers(set_view(2, 5, 2, 1, 2))
    ordered(r, 3, 2, 6)
    assert judge(r).valid is not False


def test_without_the_answer_the_election_is_not_judged() -> None:
    r = Cluster()
    r.controllers(set_view(1, 3, 1, 1, 2))
    r.fault("elect-master", **{"b0-1": True})
    r.controllers(set_view(2, 6, 2, 1, 2, 3))
    verdict = judge(r)
    assert (verdict.counts["elections-judged"], verdict.of("not judged")) == (0, ("S7",))
