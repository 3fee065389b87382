"""The order in which faults are healed."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from struck_cluster import TRIO, FakeCluster

from harness.contracts.cluster import FaultPackage
from harness.generators import EMPTY, any_of, limit, nemesis, once, time_limit
from harness.generators.simulate import after, simulate
from histories.fault_facts import BUILT_IN
from histories.op import Op
from nemeses.combine import ordered
from nemeses.fault import Fault, crowded, pace, package
from nemeses.heals import HEALS, NO_PLACE, in_order, place
from nemeses.partition import CUT_NS, START, STOP, partition_fault
from nemeses.process import kill_fault, pause_fault
from nemeses.readdress import readdress_fault

SECOND_NS = 1_000_000_000
RUN_NS = 300 * SECOND_NS


def faults(seed: int) -> list[Fault]:
    cluster = FakeCluster(TRIO)
    return [
        kill_fault(cluster, Random(f"{seed}/k"), ("master",)),
        readdress_fault(cluster, Random(f"{seed}/r"), ("slave",)),
        partition_fault(cluster, Random(f"{seed}/p")),
        pause_fault(cluster, Random(f"{seed}/s"), ("master",)),
    ]


def played(packages: Sequence[FaultPackage], seed: int, latency_ns: int) -> Sequence[Op]:
    """What faults do side by side where each operation takes so long."""
    source = time_limit(RUN_NS, nemesis(in_order(*(p.generator for p in packages))))
    return simulate(source, seed=seed, complete=after(latency_ns)).invocations


def under_a_cut(ops: Sequence[Op]) -> set[str]:
    """What was begun while a cut was in force."""
    found, cut = set(), False
    for op in ops:
        if cut:
            found.add(op.f)
        cut = op.f == START if op.f in (START, STOP) else cut
    return found


def test_the_order_knows_every_fault_that_a_heal_undoes() -> None:
    assert [*HEALS][-4:] == [STOP, "resume", "restore-ip", "start"]
    assert [place(f) for f in HEALS] == [*range(len(HEALS))]
    assert place("kill") == place("stop-flap") == NO_PLACE
    for facts in BUILT_IN.facts:
        assert all(facts.strikes in HEALS[heal] for heal in facts.heals)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("latency_ns", [SECOND_NS // 10, 10 * SECOND_NS])
def test_no_address_is_restored_and_nobody_started_under_a_cut(seed: int, latency_ns: int) -> None:
    packages = [package(f, quiet_ns=crowded(4)) for f in faults(seed)]
    ops = played(packages, seed, latency_ns)
    begun = under_a_cut(ops)
    assert begun - {"kill", "change-ip", "pause"} == {STOP}
    assert len(begun) > 1, "strikes wait for nothing"
    side_by_side = time_limit(RUN_NS, nemesis(any_of(*(p.generator for p in packages))))
    unordered = simulate(side_by_side, seed=seed, complete=after(latency_ns)).invocations
    assert {"start", "restore-ip"} & under_a_cut(unordered)


@pytest.mark.parametrize("seed", range(5))
def test_what_waits_comes_as_soon_as_the_cut_is_healed(seed: int) -> None:
    """One that is killed under a cut stays down as long as that lasts, and the cut as ever."""
    kill, _, cut, _ = faults(seed)
    latency_ns = SECOND_NS // 10
    ops = played([package(f, quiet_ns=crowded(2)) for f in (kill, cut)], seed, latency_ns)
    waited = 0
    for before, op in pairwise(ops):
        if op.f == STOP:
            begun = max(o.time for o in ops if o.f == START and o.time < op.time)
            assert op.time - begun - latency_ns - CUT_NS <= latency_ns
        if op.f == "start":
            killed = max(o.time for o in ops if o.f == "kill" and o.time < op.time)
            late_ns = op.time - killed - latency_ns - kill.hold_ns
            waited += late_ns > latency_ns
            assert late_ns <= latency_ns or before.f == STOP
            assert late_ns <= CUT_NS + 2 * latency_ns
    assert waited


def test_what_is_due_at_once_is_done_in_order() -> None:
    """As at the end of a run."""
    heals = ["start", "restore-ip", "resume", STOP, "stop-flap"]
    source = nemesis(in_order(*(once({"f": f, "value": None}) for f in heals)))
    ops = simulate(source, complete=after(1000)).invocations
    assert [op.f for op in ops if op.f in HEALS] == [STOP, "resume", "restore-ip", "start"]
    assert len(ops) == len(heals)


def test_a_strike_waits_for_the_heal_of_a_cut_that_is_due() -> None:
    """Where operations take so long that everything is due, no two of them pass in a cut."""
    ops = [op.f for op in played([package(f) for f in faults(1)], 1, 10 * SECOND_NS)]
    begun = [at for at, f in enumerate(ops[:-2]) if f == START]
    assert begun
    assert all(STOP in ops[at + 1 : at + 3] for at in begun)


@pytest.mark.parametrize(("start_ns", "first"), [(SECOND_NS, "start"), (0, "restore-ip")])
def test_a_start_waits_for_no_address_that_is_not_due(start_ns: int, first: str) -> None:
    start = pace([(0, {"f": "start", "value": None})], 5 * SECOND_NS - start_ns)
    away = pace([(0, {"f": "restore-ip", "value": None})], 5 * SECOND_NS)
    ops = simulate(limit(4, nemesis(in_order(start, away))), concurrency=0).invocations
    assert ops[0].f == first


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_of_an_ordered_pair_holds_up_the_heals_of_other_faults(seed: int) -> None:
    """Also where the pair strikes once more before it heals."""
    kill, move, cut, pause = faults(seed)
    pair = ordered(cut, pause, Random(seed), window_ns=4 * SECOND_NS)
    packages = [pair, package(kill), package(move)]
    ops = played(packages, seed, SECOND_NS)
    assert "pause" in under_a_cut(ops)
    assert not {"start", "restore-ip", "resume"} & under_a_cut(ops)
    finals = simulate(nemesis(in_order(*(p.final_generator for p in packages)))).invocations
    assert [op.f for op in finals] == [STOP, "resume", "restore-ip", "start"]


def test_a_generator_of_faults_is_asked_and_thrown_away() -> None:
    assert in_order() is EMPTY
    source = in_order(*(package(f).generator for f in faults(1)))
    first, again = (simulate(limit(20, nemesis(source))).invocations for _ in range(2))
    assert first == again
