"""Listings: who is listed again after a reset and after a restart, and tables that agree."""

import pytest
from history_recorder import SECOND_NS
from msgspec import UNSET as UNSAID
from route_histories import Listed, apart, never_relisted, restarted_without

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.routing.listings import Listings

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1")},
    eviction_ns=6 * SECOND_NS,
    relisting_ns=12 * SECOND_NS,
    settings={"broker:enableControllerMode": "false"},
)


def judge(r: Listed) -> Verdict:
    return Listings().check(r.history, CONTEXT)


def found(r: Listed) -> list[str]:
    return [a.signature for a in judge(r).anomalies]


# N7.


def test_who_was_reset_is_listed_again_within_the_bound() -> None:
    [anomaly] = judge(never_relisted()).anomalies
    assert anomaly.signature == "N7/reset-broker-not-listed"
    assert anomaly.detail == {"set": "b0", "node": "b0-1", "namesrv": "n0", "for-ms": 37_500}


def reset(*, until: float = 30, isolated: bool = False, struck: str = "") -> Listed:
    """A reset at 10 s; the slave is listed anew, or not, at a time."""
    r = Listed()
    r.says(1, "b0-1", acting=False)
    r.table(2, "n0", "0", "1")
    r.resets(10, "n0", "b0-1")
    if struck:
        r.act(15, "pause", struck)
        r.act(16, "resume", struck)
    r.says(until - 1, "b0-1", acting=False, isolated=isolated)
    r.table(until, "n0", "0")
    r.says(until + 1, "b0-1", acting=False, isolated=isolated)
    return r


def test_a_gap_as_long_as_the_bound_is_allowed() -> None:
    assert "N7" in judge(reset(until=21.9)).of("no occasion")
    assert found(reset(until=22.1)) == ["N7/reset-broker-not-listed"]


def test_nobody_is_listed_who_says_that_it_is_not_in_its_group() -> None:
    assert "N7" in judge(reset(isolated=True)).of("no occasion")


@pytest.mark.parametrize("struck", ["n0", "b0-1"])
def test_what_is_done_to_either_is_another_beginning(struck: str) -> None:
    assert "N7" in judge(reset(struck=struck)).of("no occasion")


def test_a_change_of_the_controllers_leader_pauses_the_name_server_that_it_is_in() -> None:
    r = Listed()
    r.says(1, "b0-1", acting=False)
    r.table(2, "n0", "0", "1")
    r.resets(10, "n0", "b0-1")
    r.act(25, "change-controller-leader", "controllers")
    r.says(29, "b0-1", acting=False)
    r.table(30, "n0", "0")
    r.says(31, "b0-1", acting=False)
    assert "N7" in judge(r).of("no occasion")


def test_what_is_done_to_others_is_not() -> None:
    assert found(reset(struck="b0-0")) == ["N7/reset-broker-not-listed"]


def test_a_reset_of_others_is_no_occasion() -> None:
    r = Listed()
    r.says(1, "b0-1", acting=False)
    r.resets(10, "b0-0", "b0-1")
    r.says(29, "b0-1", acting=False)
    r.table(30, "n0", "0")
    r.says(31, "b0-1", acting=False)
    assert "N7" in judge(r).of("no occasion")


# N11.


def test_a_restarted_name_server_lists_who_runs() -> None:
    [anomaly] = judge(restarted_without()).anomalies
    assert anomaly.signature == "N11/restarted-namesrv-differs"
    assert (anomaly.detail["node"], anomaly.detail["listed"]) == ("b0-1", False)


def test_with_everybody_back_it_is_kept() -> None:
    r = Listed()
    r.says(1, "b0-1", acting=False)
    r.act(10, "restart", "n0")
    r.table(12, "n0", "0")  # within the bound
    r.says(29, "b0-1", acting=False)
    r.table(30, "n0", "0", "1")
    r.says(31, "b0-1", acting=False)
    assert judge(r).of("kept") == ("N11",)


def gone(f: str, at: float) -> Listed:
    """A slave goes at a time, and a name server that was restarted at 10 s lists it."""
    r = Listed()
    r.says(1, "b0-1", acting=False)
    for when, what, node in sorted([(at, f, "b0-1"), (10, "restart", "n0")]):
        r.act(when, what, node)
    r.table(25, "n0", "0", "1")
    r.act(40, "start" if f == "kill" else "resume", "b0-1")
    return r


@pytest.mark.parametrize("f", ["kill", "pause"])
def test_it_lists_nobody_who_had_gone_before(f: str) -> None:
    [anomaly] = judge(gone(f, 5)).anomalies
    assert anomaly.signature == "N11/restarted-namesrv-differs"
    assert anomaly.detail["listed"] is True


def test_who_goes_after_it_may_be_listed_still() -> None:
    assert "N11" in judge(gone("kill", 12)).of("no occasion")


def test_of_a_broker_that_says_nothing_of_its_group_a_fresh_listing_is_asked_for() -> None:
    """It was started 4 s before the name server was, and who lists it may not know that it died."""
    for listed_at, expected in ((8.5, []), (14.5, ["N11/restarted-namesrv-differs"])):
        r = Listed()
        r.act(5, "kill", "b0-1")
        r.act(8, "start", "b0-1")
        for at in (8.2, 9):
            r.says(at, "b0-1", acting=False, isolated=UNSAID)
        r.table(listed_at, "n1", "0", "1")
        r.act(15, "restart", "n0")
        for at in (29, 31):
            r.says(at, "b0-1", acting=False, isolated=UNSAID)
            r.table(at + 1, "n0", "0")
        r.says(33, "b0-1", acting=False, isolated=UNSAID)
        assert found(r) == expected


# N9.


def test_two_name_servers_that_differ_for_longer_than_the_bound() -> None:
    [anomaly] = judge(apart()).anomalies
    assert anomaly.signature == "N9/namesrvs-differ"
    assert anomaly.detail["tables"]["n1"] == {"0": "b0-0:1"}


def test_each_change_of_either_is_a_new_beginning() -> None:
    r = Listed()
    r.act(5, "pause", "b0-1")
    r.act(9, "resume", "b0-1")
    r.table(10, "n0", "0", "1")
    r.table(10.5, "n1", "0")
    r.table(20, "n1")
    r.table(20.5, "n1", "0")
    r.table(32, "n1", "0")
    r.table(33, "n0", "0", "1")
    assert "N9" in judge(r).of("no occasion")


def test_not_while_a_fault_is_in_force() -> None:
    r = Listed()
    r.act(5, "pause", "b0-1")
    for at in (6, 30):
        r.table(at, "n0", "0", "1")
        r.table(at + 0.2, "n1", "0")
    r.table(31, "n0", "0", "1")
    r.act(40, "resume", "b0-1")
    assert "N9" in judge(r).of("no occasion")


def test_tables_that_agree_are_an_occasion() -> None:
    r = Listed()
    r.act(5, "pause", "b0-1")
    r.act(9, "resume", "b0-1")
    for at in (10, 30, 31):
        r.table(at, "n0", "0", "1")
        r.table(at + 0.2, "n1", "0", "1")
    assert judge(r).of("kept") == ("N9",)


def test_values_of_another_shape() -> None:
    r = Listed()
    r.op("ok", 9, "observe-route", {"node": "n0"}, 7)
    assert judge(r).of("not judged") == ("N7", "N9", "N11")
