"""S9b: what a master has confirmed is with every member, as long as the set is what it was."""

import pytest
from cluster_recorder import Cluster, set_view
from profiles import under

from maxq.checkers.core.api import Verdict
from maxq.checkers.replication.epochs import Epochs
from maxq.harness.contracts.target import Profile

ONE_SET = set_view(1, 5, 1, 1, 2)


def judge(r: Cluster, profile: Profile = "P-SAFE") -> Verdict:
    return Epochs().check(r.history, under(profile))


def master(r: Cluster, confirmed: int | None, *, end: int = 100, leads: bool = True) -> int:
    return r.broker("b0-0", 1, (1, 0, end), leads=leads, confirmed=confirmed)


def member(r: Cluster, end: int, *, broker_id: int | None = 2) -> int:
    return r.broker("b0-1", broker_id, (1, 0, end))


def behind(confirmed: int | None, end: int) -> Cluster:
    """A member is asked after its master, while the set is the same."""
    r = Cluster()
    r.controllers(ONE_SET)
    master(r, confirmed)
    member(r, end)
    r.controllers(ONE_SET)
    return r


def test_a_member_that_has_all_that_is_confirmed_is_evidence() -> None:
    verdict = judge(behind(80, 80))
    assert verdict.valid is True
    assert "S9b" in verdict.claims
    assert verdict.counts["members-judged"] == 1


def test_a_member_that_lacks_what_its_master_had_confirmed() -> None:
    verdict = judge(behind(80, 79))
    [found] = verdict.anomalies
    assert (found.signature, found.ops) == ("S9b/member-behind-confirmed", (1, 3, 5, 7))
    assert found.detail == {
        "set": "b0",
        "node": "b0-1",
        "id": 2,
        "end": 79,
        "confirmed": 80,
        "master": "b0-0",
        "sync-state-set": [1, 2],
        "sync-state-set-epoch": 5,
    }
    assert "Should b0-1 be elected" in found.story


def test_it_is_told_once_a_state_of_the_set() -> None:
    r = behind(80, 70)
    member(r, 75)
    r.controllers(ONE_SET)
    assert len(judge(r).anomalies) == 1


def test_the_most_that_was_confirmed_before_counts() -> None:
    r = Cluster()
    r.controllers(ONE_SET)
    master(r, 80)
    master(r, 60)  # of another answer, which may be older
    member(r, 70)
    master(r, 90)  # too late
    r.controllers(ONE_SET)
    [found] = judge(r).anomalies
    assert found.detail["confirmed"] == 80


def test_what_was_confirmed_later_may_be_missing() -> None:
    r = Cluster()
    r.controllers(ONE_SET)
    member(r, 70)
    master(r, 80)
    r.controllers(ONE_SET)
    assert judge(r).valid is True
    assert "S9b" not in judge(r).claims


@pytest.mark.parametrize(
    "then",
    [
        set_view(1, 6, 1, 1),  # dropped
        set_view(2, 6, 2, 2),  # elected
        set_view(1, 5, None, 1, 2),  # nobody knows of a master
    ],
)
def test_a_set_that_has_changed_says_nothing(then: object) -> None:
    r = Cluster()
    r.controllers(ONE_SET)
    master(r, 80)
    member(r, 70)
    r.controllers(then)  # type: ignore[arg-type]  # a view
    assert judge(r).valid is True
    assert "S9b" not in judge(r).claims


def test_who_is_no_member_or_no_master_says_nothing() -> None:
    r = Cluster()
    r.controllers(ONE_SET)
    master(r, 80, leads=False)
    master(r, None)
    member(r, 70)
    master(r, 80)
    member(r, 70, broker_id=3)
    member(r, 70, broker_id=None)
    r.controllers(ONE_SET)
    assert judge(r).valid is True
    assert judge(r).counts["members-judged"] == 0


def test_where_fewer_than_all_acknowledge_it_is_measured() -> None:
    profiles: tuple[Profile, ...] = ("P-NUM", "P-DEFAULT")
    for profile in profiles:
        verdict = judge(behind(80, 70), profile=profile)
        assert verdict.valid is True
        assert verdict.counts["member-behind-confirmed"] == 1
    dark = behind(80, 70)
    dark.fault("power-loss", **{"b0-1": True})
    assert judge(dark).valid is True, "nothing was synced"


def test_a_fork_is_no_state_of_a_set() -> None:
    """Under one number there were two sets, which is S4's to tell."""
    r = behind(80, 70)
    r.controllers(set_view(1, 5, 1, 1, 2, 3))
    assert {a.claim for a in judge(r).anomalies} == {"S4"}
