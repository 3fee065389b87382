"""Whole runs of brokers in containers: a fault takes all of a process, and runs are valid."""

from pathlib import Path
from typing import Any

import pytest

from maxq.checkers.evidence.faults import faults
from maxq.harness.cli.given.asked import asked_from
from maxq.harness.experiments.scenarios.kept_scenario import (
    gaps,
    kept_scenario_of,
    misses,
    run_kept,
)
from maxq.harness.run.stored_run import run_test
from maxq.histories.op import Op
from maxq.histories.store import ORACLE

GIVEN: dict[str, Any] = {
    "environment": "simulated", "seed": 3, "workload": ("queue",),
    "nemesis": ("kill", "partition", "pause", "change-address"), "time_limit": 30_000_000_000,
    "concurrency": 6, "mutant": None, "target": "reference", "timing": "fast", "keys": (),
}  # fmt: skip


def strikes(ops: tuple[Op, ...], f: str) -> list[dict[str, Any]]:
    return [op.value for op in ops if op.f == f and isinstance(op.value, dict)]


@pytest.mark.parametrize(
    ("layout", "mode"),
    [("crossed-2", "pair"), ("crossed-3", "controllers"), ("mixed", "pair"), ("one", "pair")],
)
def test_a_run_in_containers_is_valid(tmp_path: Path, layout: str, mode: str) -> None:
    judged = run_test(asked_from({**GIVEN, "layout": layout, "mode": mode}), tmp_path, quiet=True)

    assert judged.results.valid is True
    assert (judged.stored.path / ORACLE).read_bytes() == b""
    assert f"--layout {layout}" in judged.options.command()
    kills = strikes(judged.stored.history.nemesis, "kill")
    assert kills
    for kill in kills:
        for node, what in kill.items():
            if what.get("container"):
                assert {*what["ports"]} - {what["container"]} <= kill.keys(), (node, kill)


def test_what_a_cut_says_names_nodes_and_no_containers(tmp_path: Path) -> None:
    given = {**GIVEN, "layout": "crossed-2", "mode": "pair", "nemesis": ("partition",)}
    judged = run_test(asked_from(given), tmp_path, quiet=True)
    cuts = strikes(judged.stored.history.nemesis, "start-partition")
    assert cuts
    for cut in cuts:
        named = {*cut, *(source for what in cut.values() for source in what["from"])}
        assert named <= {"n0", "b0-0", "b0-1", "b1-0", "b1-1"}


@pytest.mark.parametrize("mode", ["pair", "controllers"])
def test_brokers_are_added_and_removed_while_containers_are_killed(
    tmp_path: Path, mode: str
) -> None:
    given = {**GIVEN, "layout": "crossed-2", "mode": mode, "workload": ("queue", "containers")}
    given |= {"nemesis": ("kill", "remove-broker", "fail-store"), "time_limit": 70_000_000_000}
    judged = run_test(asked_from(given), tmp_path, quiet=True)

    assert judged.results.valid is True
    assert (judged.stored.path / ORACLE).read_bytes() == b""
    kept = {"B1", "B2", "B3", "B4", "B5", "B11", "B14"}
    assert kept <= set(judged.results.of("kept"))
    acts = faults(judged.stored.history)
    assert [act for act in acts if not act.holds] == []
    for f in ("remove-broker", "fail-store"):
        assert {len(act.nodes) for act in acts if act.f == f} == {1}, "a broker goes alone"


def test_a_container_dies_and_nothing_that_was_acknowledged_does(tmp_path: Path) -> None:
    """RIP-31's sentence: the other container serves both sets, until the first one is back."""
    one = kept_scenario_of("container_dies")
    assert one is not None
    judged = run_kept(one, tmp_path, environment="simulated")
    assert [*misses(one.keeps, judged.results)] == []
    assert len([*gaps(one.keeps, judged.results)]) == len(one.keeps.gaps)


@pytest.mark.parametrize("name", ["killed_containers_are_unlisted", "escaped_outlives_power_loss"])
def test_other_scenarios_of_containers_are_kept(tmp_path: Path, name: str) -> None:
    one = kept_scenario_of(name)
    assert one is not None
    judged = run_kept(one, tmp_path, environment="simulated")
    assert [*misses(one.keeps, judged.results)] == []


@pytest.mark.parametrize(("layout", "mode"), [("crossed-2", "pair"), ("crossed-3", "controllers")])
def test_brokers_keep_to_their_share_while_one_set_is_flooded(
    tmp_path: Path, layout: str, mode: str
) -> None:
    """B9, B10, B13: also while others fill the partition, which has sends refused."""
    given = {**GIVEN, "layout": layout, "mode": mode, "workload": ("queue", "flood")}
    given |= {"nemesis": ("kill", "fill-disk"), "time_limit": 30_000_000_000}
    judged = run_test(asked_from(given), tmp_path, quiet=True)

    assert judged.results.valid is True
    assert (judged.stored.path / ORACLE).read_bytes() == b""
    assert {"B9", "B10", "B13"} <= set(judged.results.of("kept"))
    assert {act.holds for act in faults(judged.stored.history) if act.f == "fill-disk"} == {True}
    refused = [op for op in judged.stored.history.clients
               if op.type == "fail" and "SERVICE_NOT_AVAILABLE" in str(op.error)]  # fmt: skip
    assert refused


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"layout": "crossed-2", "broker_sets": 3}, "--layout crossed-2 has 2 broker sets: not"),
        ({"layout": "crossed-3", "mode": "pair", "replicas": 3}, "has 2 replicas: not --replicas"),
        ({"layout": "one", "mode": "controllers"}, "--layout one is for --mode pair"),
        ({"layout": "mixed", "releases": (("b0-1", "5.5.0"),)}, "--layout runs one target: not"),
        ({"layout": "mixed", "nemesis": ("replace-release",)}, "replace-release is not for"),
        ({"workload": ("containers",)}, "--workload containers needs --layout: crossed-2,"),
        ({"workload": ("flood",)}, "--workload flood needs --layout: crossed-2, crossed-3, mixed"),
        ({"workload": ("flood", "ordered"), "layout": "mixed"}, "flood is not for ordered"),
        ({"nemesis": ("remove-broker",)}, "--nemesis remove-broker needs --layout: crossed-2,"),
        ({"nemesis": ("fail-store",)}, "--nemesis fail-store needs --layout: crossed-2,"),
    ],
)
def test_what_containers_cannot_do_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        asked_from({**GIVEN, **more})
