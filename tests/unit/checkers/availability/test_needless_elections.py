"""S18: a master that runs and can be reached is not replaced, and everything that excuses that."""

from collections.abc import Callable

import msgspec
import pytest
from cluster_recorder import set_view
from history_recorder import SECOND_NS
from timed_cluster import Timed

from maxq.checkers.availability.availability import Availability
from maxq.checkers.core.api import Context, Verdict
from maxq.histories.observed import WIPE
from maxq.histories.op import NEMESIS

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1", "b0-2")},
    recovery_ns=20 * SECOND_NS,
    shrink_ns=8 * SECOND_NS,
)
ELECTED_S = 30.0


def judge(r: Timed, context: Context = CONTEXT) -> Verdict:
    return Availability().check(r.history, context)


def replaced(
    *,
    act: Callable[[Timed], object] = lambda r: None,
    at: float = 20,
    by: int | None = 2,
    silent: tuple[float, float] = (0, 0),
    leader: Callable[[float], str] = lambda now: "c0",
) -> Timed:
    """Broker 1 leads for 30 s, then another one. Everybody is asked each second; `act` is done at a
    time, the old master is not asked in `silent`, and controllers are led by `leader`."""
    r = Timed()
    done = False
    for half in range(72):
        now = half / 2
        r.at(now)
        if now >= at and not done:
            act(r)
            done = True
        if half % 2:
            led = now < ELECTED_S
            view = set_view(1, 3, 1, 1, 2, 3) if led else set_view(2, 4, by, 1, 2, 3)
            r.controllers(view, node=leader(now))
        elif not silent[0] <= now < silent[1]:
            r.lives(0, leads=now < ELECTED_S)
    return r


def test_who_elects_another_one_beside_a_master_that_runs_is_blamed() -> None:
    [found] = judge(replaced()).anomalies
    assert found.signature == "S18/healthy-master-replaced"
    assert found.detail == {"set": "b0", "node": "b0-0", "epoch": 2}
    assert "broker 2 as master of epoch 2" in found.story


def test_nor_may_it_have_none() -> None:
    [found] = judge(replaced(by=None)).anomalies
    assert "nobody as master of epoch 2" in found.story


def test_a_master_that_stays_keeps_it() -> None:
    r = Timed()
    r.at(0).fault("kill", **{"b1-0": True})
    for half in range(72):
        r.at(half / 2)
        r.controllers(set_view(1, 3, 1, 1, 2, 3)) if half % 2 else r.lives(0, leads=True)
    verdict = judge(r)
    assert "S18" in verdict.of("kept")


def struck(node: str, f: str = "restart") -> Callable[[Timed], object]:
    return lambda r: r.fault(f, **{node: True})


def ordered(r: Timed) -> None:
    r.fault("elect-master", **{"b0-1": True})


def parted(r: Timed) -> None:
    r.begin(NEMESIS, "start-partition", "p")
    both = {a: {"from": [b], "holds": True} for a, b in (("b0-0", "c0"), ("c0", "b0-0"))}
    r.end("info", NEMESIS, "start-partition", both)


def wiped(r: Timed) -> None:
    r.op("ok", 3, WIPE, {"node": "b0-0"}, None)


@pytest.mark.parametrize(
    "act",
    [struck("b0-0"), struck("c1"), struck("b0-2"), struck("b0-0", "bump-clock"),
     struck("c0", "reset-connections"), ordered, parted, wiped, struck("x", "hold-breath")],
    ids=["the master", "a controller", "a slave", "a clock", "connections", "an order", "a cut",
         "a store", "an unknown act"],
)  # fmt: skip
def test_what_was_done_before_excuses_it(act: Callable[[Timed], object]) -> None:
    assert judge(replaced(act=act)).of("broken") == ()


def test_what_another_set_or_a_name_server_was_struck_by_does_not() -> None:
    for node in ("n0", "b1-0"):
        assert judge(replaced(act=struck(node))).of("broken") == ("S18",)


@pytest.mark.parametrize("silent", [(24, 27), (29, 99)], ids=["a while", "for good"])
def test_nor_is_anybody_blamed_for_a_master_that_was_silent(silent: tuple[float, float]) -> None:
    assert judge(replaced(silent=silent)).of("broken") == ()


def test_its_silence_long_before_does_not_excuse_it() -> None:
    assert judge(replaced(silent=(2, 6))).of("broken") == ("S18",)


def test_a_new_leader_has_heard_nobody() -> None:
    moved = replaced(leader=lambda now: "c0" if now < 25 else "c1")
    assert judge(moved).of("broken") == ()


def test_a_run_that_is_too_young_excuses_it() -> None:
    longer = msgspec.structs.replace(CONTEXT, recovery_ns=40 * SECOND_NS)
    assert judge(replaced(), longer).of("broken") == ()
