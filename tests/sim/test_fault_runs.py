"""Whole runs under each fault and under several at once: proven, valid, repeatable."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from maxq.checkers.evidence.faults import faults
from maxq.harness.experiments.simulate import simulated
from maxq.harness.run.replay import options_for
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import decode
from maxq.harness.schedule.options import Options
from maxq.histories.store import ORACLE
from maxq.nemeses.catalogue import NO_FAULT, fault_names

SECOND_NS = 1_000_000_000
TRIO: dict[str, Any] = {
    "workload": ("queue",),
    "controllers": 3,
    "broker_sets": 1,
    "replicas": 3,
    "profile": "P-SAFE",
}
AWAY = ("slaves-away-kill", "slaves-away-power")  # half a minute a round
# Without those that need an operator's repair, another release, which no simulated node has, or a
# container.
NOT_HERE = {
    NO_FAULT,
    "damage",
    "replace-release",
    "remove-broker",
    "fail-store",
    "fill-disk",
    *AWAY,
}
SINGLE = sorted(set(fault_names()) - NOT_HERE)
THREE = ("kill", "partition", "change-address")
BEGINS = {
    "power": "power-loss",
    "partition": "start-partition",
    "partition-any": "start-partition",
    "partition-clients": "start-partition",
    "clock": "bump-clock",
    "disk": "start-disk-fault",
    "delay": "start-delay",
    "loss": "start-packet-loss",
    "write-permission": "wipe-write",
}


def run(folder: Path, nemesis: tuple[str, ...], *, seed: int, seconds: int, **more: Any) -> Judged:
    options = Options(
        environment="simulated",
        seed=seed,
        nemesis=nemesis,
        time_limit_ns=seconds * SECOND_NS,
        **{**TRIO, **more},
    )
    return run_test(options, folder, quiet=True)


OBSERVED = ("observe-controller", "observe-route")


def struck(judged: Judged) -> Counter[str]:
    """How often each operation was performed; each must be proven, the run valid, and nothing for
    the oracle to see."""
    found = faults(judged.stored.history)
    assert [f for f in found if not f.holds] == []
    assert judged.results.valid is True, judged.results
    assert (judged.stored.path / ORACLE).read_bytes() == b""
    return Counter(f.f for f in found)


@pytest.mark.parametrize("name", SINGLE)
def test_a_fault_alone_is_proven_and_loses_nothing(tmp_path: Path, name: str) -> None:
    """S6, S10, S11 with three controllers and three replicas in sync."""
    assert struck(run(tmp_path, (name,), seed=3, seconds=20))[BEGINS.get(name, name)] >= 2


@pytest.mark.parametrize("name", AWAY)
def test_a_master_that_is_struck_while_its_slaves_are_away_keeps_all(
    tmp_path: Path, name: str
) -> None:
    """S6, S10, S11 likewise: it acknowledges nothing alone."""
    counts = struck(run(tmp_path, (name,), seed=3, seconds=60))
    assert counts["stop"] >= 1
    assert counts["power-loss" if name.endswith("power") else "kill"] >= 1


def test_controllers_in_name_servers_are_struck_as_both(tmp_path: Path) -> None:
    """S1 to S5, N1: one process that is killed and cut off as a name server and a controller."""
    judged = run(tmp_path, ("kill", "partition"), seed=2, seconds=30, embedded=True)
    assert struck(judged)["kill"] >= 2
    nodes = {victim for f in faults(judged.stored.history) for victim in f.nodes}
    assert nodes & {"n0", "n1", "n2"}
    asked = {(op.f, op.value["node"]) for op in judged.stored.history if op.f in OBSERVED}
    assert {(f, n) for f in OBSERVED for n in ("n0", "n1", "n2")} <= asked


def test_damaged_stores_are_refused_or_made_good(tmp_path: Path) -> None:
    """A start that a damaged store refuses has no proof, and is excused."""
    judged = run(tmp_path, ("damage",), seed=3, seconds=90)
    assert judged.results.valid is True, judged.results
    counts = Counter(f.f for f in faults(judged.stored.history) if f.nodes and f.holds)
    assert counts["kill"] >= 2
    assert counts["flip-bit"] + counts["cut-file"] + counts["copy-store"] >= 2


@pytest.mark.parametrize("name", SINGLE)
def test_a_fault_of_sets_without_replicas_is_proven(tmp_path: Path, name: str) -> None:
    more = {"controllers": 1, "broker_sets": 3, "replicas": 1, "profile": "P-ALL"}
    assert struck(run(tmp_path, (name,), seed=4, seconds=10, **more))[BEGINS.get(name, name)] >= 1


def test_kill_partition_and_change_address_at_once(tmp_path: Path) -> None:
    counts = struck(run(tmp_path, THREE, seed=1, seconds=40))
    assert min(counts[f] for f in ("kill", "start-partition", "change-address")) >= 2
    assert min(counts[f] for f in ("start", "stop-partition", "restore-address")) >= 2


def test_all_faults_at_once(tmp_path: Path) -> None:
    """A master that had been cut off was still believed when the last reads began."""
    counts = struck(run(tmp_path, tuple(SINGLE), seed=222, seconds=60))
    assert all(counts[BEGINS.get(name, name)] for name in SINGLE)


def test_an_ordered_pair_beside_quiet_periods(tmp_path: Path) -> None:
    """A partition, then a kill within 20 s; neither clients nor the nemesis act in a lull."""
    more = {"lull_ns": 4 * SECOND_NS}
    judged = run(tmp_path, ("partition-then-kill",), seed=5, seconds=60, **more)
    assert min(struck(judged)[f] for f in ("start-partition", "kill")) >= 2
    ops = judged.stored.history.ops
    begun = [op.time for op in ops if op.type == "invoke" and op.f in ("send", "poll")]
    gaps = [b - a for a, b in pairwise(begun)]
    assert sum(gap > 3 * SECOND_NS for gap in gaps) >= 3


SLOW = """\
{"item": "header", "name": "a cut is healed on a slow way", "length": 12, "options": {"workload": ["queue"]}}
{"item": "load", "id": "w", "until": 12, "rate": 5}
{"item": "act", "id": "d", "f": "start-delay", "when": {"at": 1}, "who": {"nodes": ["b0-1"]}, "args": {"ms": 3000}}
{"item": "act", "id": "e", "f": "start-delay", "when": {"at": 1}, "who": {"nodes": ["c0"]}, "args": {"ms": 3000}}
{"item": "act", "id": "c", "f": "start-partition", "when": {"at": 5}, "who": {"nodes": ["b0-1"]}}
{"item": "act", "id": "h", "f": "stop-partition", "when": {"after": "c", "at": 1}}
{"item": "act", "id": "f", "f": "stop-delay", "when": {"after": "h", "at": 1}}
"""  # noqa: E501


def test_a_cut_whose_heal_is_late_to_be_seen_is_proven() -> None:
    script = decode(SLOW.encode())
    done = simulated(script, options_for(script, "simulated"))
    seen = [f for f in faults(done.history) if f.f in ("start-partition", "stop-partition")]
    assert [(f.f, f.holds) for f in seen] == [("start-partition", True), ("stop-partition", True)]


def test_at_the_end_each_replica_and_each_controller_leads(tmp_path: Path) -> None:
    """Whatever the faults of the run are."""
    judged = run(tmp_path, ("pause",), seed=3, seconds=8, ending="each-replica")
    assert struck(judged).keys() >= {"elect-master", "change-controller-leader"}
    told = [(f.f, f.result or {}) for f in faults(judged.stored.history)]
    assert [[*done] for f, done in told if f == "elect-master"] == [["b0-0"], ["b0-1"], ["b0-2"]]
    changes = [done["controllers"] for f, done in told if f == "change-controller-leader"]
    assert all(done["from"] != done["to"] for done in changes)
    assert [a["to"] for a in changes[:-1]] == [b["from"] for b in changes[1:]]
