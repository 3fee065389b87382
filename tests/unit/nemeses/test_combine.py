"""Several faults at once, and one after another within a window."""

from collections import Counter
from random import Random

import pytest
from struck_cluster import TRIO, FakeCluster, invoke

from harness.contracts.outcome import Fail, Ok
from harness.generators import any_of, clients, limit, lulls, nemesis, repeat, stagger, time_limit
from harness.generators.simulate import after, simulate
from nemeses.combine import ROUNDS, ordered
from nemeses.fault import CROWDED_NS, QUIET_NS, crowded, package
from nemeses.partition import CUT_NS, START, STOP, partition_fault
from nemeses.process import kill_fault
from nemeses.readdress import readdress_fault

SECOND_NS = 1_000_000_000


def test_faults_that_run_together_all_strike_soon_and_none_waits_for_another() -> None:
    cluster = FakeCluster(TRIO)
    faults = [
        kill_fault(cluster, Random(1), ("master",)),
        partition_fault(cluster, Random(2)),
        readdress_fault(cluster, Random(3), ("slave",)),
    ]
    packages = [package(f, quiet_ns=crowded(len(faults))) for f in faults]
    source = time_limit(60 * SECOND_NS, nemesis(any_of(*[p.generator for p in packages])))
    ops = simulate(source, complete=after(SECOND_NS // 10)).invocations
    first = {op.f: op.time for op in reversed(ops)}
    assert all(first[f] < 3 * SECOND_NS for f in ("kill", START, "change-ip"))
    counts = Counter(op.f for op in ops)
    assert counts["kill"] >= 5
    assert counts[START] >= 4
    assert counts["change-ip"] >= 3
    assert crowded(1) == QUIET_NS
    assert crowded(3) == QUIET_NS + 2 * CROWDED_NS


def test_each_of_them_keeps_its_own_time() -> None:
    """A fault's heal comes its while after its strike was seen, whatever others do."""
    cluster = FakeCluster(TRIO)
    packages = [
        package(partition_fault(cluster, Random(2))),
        package(kill_fault(cluster, Random(1), ("master",))),
    ]
    source = nemesis(any_of(*[p.generator for p in packages]))
    latency_ns = 1000
    ops = simulate(limit(60, source), complete=after(latency_ns)).invocations
    cuts = [op for op in ops if op.f in (START, STOP)]
    for begun, ended in zip(cuts[::2], cuts[1::2], strict=False):
        assert latency_ns <= ended.time - begun.time - CUT_NS <= 3 * latency_ns


def test_the_second_strikes_within_a_window_of_the_first() -> None:
    cluster = FakeCluster(TRIO)
    first = partition_fault(cluster, Random(1))
    second = kill_fault(cluster, Random(2), ("slave",))
    window_ns = 4 * SECOND_NS
    made = ordered(first, second, Random(3), window_ns=window_ns)
    assert made.fs == {START, STOP, "kill", "start"}
    assert made.needs == first.needs | second.needs
    assert made.name == "partition-then-kill"
    ops = simulate(limit(4 * ROUNDS + 1, made.generator), concurrency=0).invocations
    assert ops[0].time == QUIET_NS
    during = 0
    for at in range(0, len(ops), 4):
        moment = {op.f: op.time for op in ops[at : at + 4]}
        assert moment.keys() == made.fs
        assert 0 <= moment["kill"] - moment[START] <= CUT_NS + window_ns + SECOND_NS
        assert moment["start"] > moment["kill"]
        assert moment[STOP] > moment[START]
        during += moment["kill"] < moment[STOP]
    assert 0 < during < ROUNDS, "some while the first holds, some after it"
    ends = simulate(made.final_generator, concurrency=0).invocations
    assert [op.f for op in ends] == [STOP, "start"]


@pytest.mark.parametrize("cut_first", [True, False])
def test_who_was_struck_under_a_cut_is_healed_when_that_is_over(cut_first: bool) -> None:
    """Of an ordered pair, whichever strikes first; no heal but the cut's comes while it lasts."""
    pair = (
        partition_fault(FakeCluster(TRIO), Random(1)),
        readdress_fault(FakeCluster(TRIO), Random(2), ("slave",), away_ns=SECOND_NS),
    )
    made = ordered(*(pair if cut_first else pair[::-1]), Random(3), window_ns=6 * SECOND_NS)
    ops = simulate(limit(4 * ROUNDS + 1, made.generator), concurrency=0).invocations
    under = 0
    for at in range(0, len(ops), 4):
        fs = [op.f for op in ops[at : at + 4]]
        moment = {op.f: op.time for op in ops[at : at + 4]}
        assert moment[STOP] - moment[START] - CUT_NS < 100, "a cut is as long as ever"
        if fs.index(START) < fs.index("restore-ip"):
            assert fs.index(STOP) < fs.index("restore-ip")
        late_ns = moment["restore-ip"] - moment["change-ip"] - SECOND_NS
        waited = late_ns >= 100  # of operations that take 10 ns
        assert not waited or fs.index("restore-ip") == fs.index(STOP) + 1
        under += waited
    assert 0 < under < ROUNDS, "some while the cut is in force, some not"


def test_both_are_performed_by_their_own() -> None:
    cluster = FakeCluster(TRIO)
    made = ordered(
        partition_fault(cluster, Random(1)), kill_fault(cluster, Random(2), ("slave",)), Random(3)
    )
    outcomes = invoke(made.nemesis, (START, "halves"), "kill", "start", STOP, "boil")
    assert [type(o) for o in outcomes] == [Ok, Ok, Ok, Ok, Fail]
    assert {verb for verb, _ in cluster.done} == {"cut", "kill", "start", "heal"}


def test_in_a_lull_nobody_does_anything() -> None:
    fault = kill_fault(FakeCluster(TRIO), Random(1), ("master",))
    sends = stagger(SECOND_NS // 50, repeat({"f": "send"}))
    both = clients(sends, package(fault).generator)
    source = time_limit(30 * SECOND_NS, lulls(6 * SECOND_NS, 4 * SECOND_NS, both))
    ops = simulate(source, complete=after(1000)).invocations
    assert all(op.time % (10 * SECOND_NS) < 6 * SECOND_NS for op in ops)
    busy = Counter(op.time // (10 * SECOND_NS) for op in ops if op.f == "send")
    assert list(busy) == [0, 1, 2]
    assert all(200 < count < 400 for count in busy.values()), "and no burst after it"
    assert sum(op.f == "kill" for op in ops) >= 3
