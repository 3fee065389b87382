"""Silent brokers: who is still listed, and who is shown for a master that is gone."""

import msgspec
import pytest
from history_recorder import SECOND_NS
from route_histories import ACTING, BOTH, READ, SLAVE, SLAVES, Routed, silent_listed, wrong_shown

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.routing.silent_brokers import SilentBrokers
from maxq.histories.op import NEMESIS

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1", "b0-2")},
    eviction_ns=6 * SECOND_NS,
    recovery_ns=20 * SECOND_NS,
    settings={
        "broker:enableSlaveActingMaster": "true",
        "broker:enableControllerMode": "false",
        "namesrv:supportActingMaster": "true",
    },
)


def judge(r: Routed) -> Verdict:
    return SilentBrokers().check(r.history, CONTEXT)


def ended(r: Routed) -> Routed:
    """Another act, so that the lull before it is over."""
    r.act(40, "resume", "b0-0")
    return r


@pytest.mark.parametrize("f", ["pause", "kill"])
def test_who_is_silent_is_listed_no_more(f: str) -> None:
    r = silent_listed(f)
    [found] = judge(r).anomalies
    assert (found.signature, found.ops[-1]) == ("N4/silent-broker-listed", 9)
    assert found.detail == {"set": "b0", "node": "b0-0", "namesrv": "n0", "for-ms": 6500}


def test_who_has_left_in_time() -> None:
    r = Routed()
    r.says(1, "b0-0", acting=False)
    r.act(10, "pause", "b0-0")
    r.shows(15.9, BOTH, perm=READ)
    r.shows(17, SLAVE, ACTING, perm=READ)
    assert judge(ended(r)).of("kept") == ("N4",)


@pytest.mark.parametrize(
    ("cut_s", "at", "found"), [(None, 17, 1), (4, 17, 0), (4, 19.9, 0), (4, 20.2, 1)]
)
def test_after_a_cut_what_was_held_back_may_be_heard_for_as_long(
    cut_s: float | None, at: float, found: int
) -> None:
    r = Routed()
    r.says(1, "b0-0", acting=False)
    if cut_s is not None:
        r.now = 10 - cut_s
        r.begin(NEMESIS, "start-partition", "c")
        cut = {"n0": {"holds": True, "from": {"b0-0": 1}}}
        r.end("info", NEMESIS, "start-partition", cut)
        r.act(10, "stop-partition", "n0")
    r.act(10.1, "pause", "b0-0")
    r.shows(at, BOTH, perm=READ)
    assert len(judge(ended(r)).anomalies) == found


def test_nobody_is_judged_during_a_cut_or_without_a_name_server_or_at_a_new_address() -> None:
    r = Routed()
    r.says(1, "b0-0", acting=False)
    r.act(5, "pause", "b0-0")
    r.begin(NEMESIS, "start-partition", "c")
    r.end("info", NEMESIS, "start-partition", {"n1": {"holds": True, "from": {"b0-1": 1}}})
    r.shows(20, BOTH, perm=READ)
    assert judge(ended(r)).of("no occasion") == ("N4", "N12")


def test_the_smallest_slave_that_runs_is_shown() -> None:
    r = wrong_shown()
    [found] = judge(r).anomalies
    assert (found.signature, found.ops[-1]) == ("N12/other-slave-shown", 13)
    assert found.detail == {"set": "b0", "node": "b0-1", "namesrv": "n0", "listed": "b0-2:1"}


def test_with_controllers_the_route_shows_whom_they_elected() -> None:
    settings = {**(CONTEXT.settings or {}), "broker:enableControllerMode": "true"}
    context = msgspec.structs.replace(CONTEXT, settings=settings)
    verdict = SilentBrokers().check(wrong_shown().history, context)
    assert (verdict.anomalies, verdict.of("no occasion")) == ((), ("N12",))


@pytest.mark.parametrize("f", ["pause", "resume", "restart"])
def test_not_soon_after_something_was_done_to_a_slave(f: str) -> None:
    r = Routed()
    for node in ("b0-0", "b0-1", "b0-2"):
        r.says(1, node, acting=False)
    r.act(9, f, "b0-2")
    r.act(10, "kill", "b0-0")
    r.shows(17, SLAVES, perm=READ)
    assert "N12" in judge(ended(r)).of("no occasion")


def test_who_is_shown_as_it_should_be() -> None:
    r = wrong_shown({"0": "b0-1:1", "2": "b0-2:1"})
    assert judge(r).of("kept") == ("N4", "N12")


def test_values_of_another_shape() -> None:
    r = Routed()
    r.op("ok", 9, "observe-route", {"node": "n0"}, 7)
    assert judge(r).of("not judged") == ("N4", "N12")


@pytest.mark.parametrize(("of", "judged"), [("b0", False), ("b1", True)])
def test_nobody_is_shown_for_a_master_whose_set_an_operator_has_opened(
    of: str, *, judged: bool
) -> None:
    """A set without a master that may be written to shows no slave in its place."""
    r = Routed()
    for node in ("b0-0", "b0-1", "b0-2"):
        r.says(1, node, acting=False)
    r.act(10, "kill", "b0-0")
    r.now = 11
    r.begin(NEMESIS, "add-write", "a")
    r.end("info", NEMESIS, "add-write", {"b9-0": {"holds": True, "set": of}})
    r.shows(35, SLAVES, perm=READ)
    assert ("N12" in judge(ended(r)).of("broken")) is judged
