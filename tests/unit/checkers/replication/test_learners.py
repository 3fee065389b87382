"""S17: a learner is a member of no SyncStateSet."""

import msgspec
from cluster_recorder import Cluster, set_view
from profiles import under

from maxq.checkers.core.api import Verdict
from maxq.checkers.replication.epochs import Epochs
from maxq.histories.observed import SetView

LEARNER = "b0-2"


def judge(r: Cluster, *learners: str) -> Verdict:
    context = msgspec.structs.replace(under("P-SAFE"), learners=learners)
    return Epochs().check(r.history, context)


def observed(*views: SetView, id_: int = 3) -> Cluster:
    r = Cluster()
    r.broker("b0-0", 1, (1, 0, 100), leads=True)
    r.broker(LEARNER, id_, (1, 0, 100))
    for view in views:
        r.controllers(view)
    return r


def known(master: int, *members: int, epoch: int = 1, set_epoch: int = 1) -> SetView:
    """A set of which controllers know three brokers."""
    return set_view(epoch, set_epoch, master, *members, replicas=(1, 2, 3))


def test_a_learner_that_copies_only_is_evidence() -> None:
    verdict = judge(observed(known(1, 1, 2)), LEARNER)
    assert "S17" in verdict.of("kept")


def test_a_learner_in_the_set_is_found_once_an_epoch() -> None:
    r = observed(known(1, 1, 2, 3), known(1, 1, 2, 3, set_epoch=2), known(2, 2, 3, epoch=2))
    found = [a for a in judge(r, LEARNER).anomalies if a.claim == "S17"]
    assert [a.signature for a in found] == ["S17/learner-in-set"] * 2
    assert [a.detail["epoch"] for a in found] == [1, 2]
    assert {a.detail["node"] for a in found} == {LEARNER}


def test_a_learner_that_leads_is_judged_by_s7() -> None:
    """Before there was a set every broker may be elected."""
    assert "S17" not in judge(observed(known(3, 3)), LEARNER).of("broken")


def test_without_learners_there_is_no_occasion() -> None:
    verdict = judge(observed(known(1, 1, 2, 3)))
    assert "S17" in verdict.of("no occasion")


def test_the_id_is_the_learners_own_word() -> None:
    """An id that no learner said it has is another broker's."""
    assert "S17" not in judge(observed(known(1, 1, 3), id_=2), LEARNER).of("broken")
