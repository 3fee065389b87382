"""S10b: what a slave lets consumers read its master has confirmed."""

from typing import Any

import pytest
from cluster_recorder import Cluster, set_view
from profiles import under

from maxq.checkers.core.api import Verdict
from maxq.checkers.replication.epochs import Epochs
from maxq.harness.contracts.target import Profile

LED = set_view(1, 5, 1, 1, 2)


def judge(r: Cluster, profile: Profile = "P-SAFE") -> Verdict:
    return Epochs().check(r.history, under(profile))


def slave(r: Cluster, confirmed: int | None, *, epoch: int = 1, start: int = 0,
          leads: bool = False) -> None:  # fmt: skip
    r.broker("b0-1", 2, (epoch, start, 100), leads=leads, confirmed=confirmed)


def master(r: Cluster, confirmed: int | None, *, epoch: int = 1, start: int = 0) -> None:
    r.broker("b0-0", 1, (epoch, start, 100), leads=True, confirmed=confirmed)


def begun() -> Cluster:
    r = Cluster()
    r.controllers(LED)
    return r


def ahead(readable: int | None, confirmed: int | None) -> Cluster:
    """A slave, its master after it, and a controller last."""
    r = begun()
    slave(r, readable)
    master(r, confirmed)
    r.controllers(LED)
    return r


@pytest.mark.parametrize("readable", [80, 79, 0])
def test_a_slave_that_shows_no_more_than_its_master_has_confirmed_is_evidence(
    readable: int,
) -> None:
    verdict = judge(ahead(readable, 80))
    assert verdict.valid is True
    assert "S10b" in verdict.claims
    assert verdict.counts["slaves-judged"] == 1


def test_a_slave_that_shows_more() -> None:
    verdict = judge(ahead(81, 80))
    [found] = verdict.anomalies
    assert (found.signature, found.ops) == ("S10b/slave-ahead-of-master", (3, 5))
    assert found.detail == {
        "set": "b0",
        "node": "b0-1",
        "id": 2,
        "epoch": 1,
        "readable": 81,
        "confirmed": 80,
        "master": "b0-0",
    }
    assert "be gone with the next master" in found.story


def test_it_is_told_once_a_slave_and_epoch() -> None:
    r = ahead(81, 80)
    slave(r, 90)
    master(r, 85)
    r.controllers(LED)
    assert len(judge(r).anomalies) == 1


def test_the_master_s_next_answer_counts_and_none_from_before() -> None:
    r = begun()
    master(r, 60)
    slave(r, 80)
    master(r, 80)
    master(r, 90)
    r.controllers(LED)
    assert judge(r).valid is True
    assert judge(r).counts["slaves-judged"] == 1


@pytest.mark.parametrize(
    ("slaves", "masters"),
    [
        ({"confirmed": None}, {"confirmed": 80}),
        ({"confirmed": 81}, {"confirmed": None}),
        ({"confirmed": 81, "epoch": 2}, {"confirmed": 80}),  # of another reign
        ({"confirmed": 82, "start": 81}, {"confirmed": 80, "start": 81}),  # it does not know yet
    ],
)
def test_nothing_is_said_of(slaves: dict[str, Any], masters: dict[str, Any]) -> None:
    r = begun()
    slave(r, **slaves)
    master(r, **masters)
    r.controllers(LED)
    assert "S10b" not in judge(r).claims
    assert judge(r).valid is True


def test_a_broker_that_leads_itself_is_nobody_s_slave() -> None:
    r = begun()
    slave(r, confirmed=81, leads=True, epoch=2)
    master(r, confirmed=80)
    assert "S10b" not in judge(r).claims
    assert not judge(r).anomalies


def test_a_deposed_master_is_nobody_s_master_any_more() -> None:
    """Its slave may have followed another one in between, and have come back to tell of it."""
    r = begun()
    slave(r, 81)
    master(r, 80)
    r.controllers(set_view(2, 6, 2, 2))
    assert "S10b" not in judge(r).claims
    assert judge(r).valid is True


@pytest.mark.parametrize("profile", ["P-NUM", "P-DEFAULT"])
def test_it_is_promised_where_all_acknowledge(profile: Profile) -> None:
    assert judge(ahead(81, 80), profile).valid is True
    assert judge(ahead(81, 80), "P-UNCLEAN").valid is False
