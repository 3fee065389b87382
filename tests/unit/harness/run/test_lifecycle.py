"""Whole runs in the simulator that go wrong: what is seen, what is left, what the verdict says."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from run_in_world import SECOND_NS, Performed, Watched, options, performed

from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import (
    Capability,
    EnvironmentLost,
    EnvironmentUnavailable,
    MachineSpec,
    MissingCapability,
    Role,
)
from maxq.harness.contracts.target import Node, Settings
from maxq.harness.targets.reference import ReferenceTarget
from maxq.histories.fault_facts import AWAIT_RECOVERY, INSPECT
from maxq.histories.op import Op


def completed(run: Performed, f: str) -> Op:
    """The completion of the last operation of this kind."""
    return [op for op in run.judged.stored.history.nemesis if op.f == f][-1]


@pytest.mark.parametrize(
    "more",
    [
        {"nemesis": ("none",)},
        {"concurrency": 2},
        {"time_limit_ns": SECOND_NS // 2},  # over before the first kill
        {"broker_sets": 1, "concurrency": 2},
        {"controllers": 3},
        {"rate": 1.0},
    ],
)
def test_small_runs_are_valid(tmp_path: Path, more: dict[str, object]) -> None:
    run = performed(tmp_path, options(**more))
    assert run.failure is None
    assert run.judged.results.valid is True, run.judged.results
    assert (run.environment.ups, run.environment.downs) == (1, 1)


def test_the_history_tells_what_the_brokers_are_and_that_they_recovered(tmp_path: Path) -> None:
    run = performed(tmp_path, options())
    assert completed(run, INSPECT).value == {
        f"b{i}-0": {"holds": True, "mutant": "", "wanted": ""} for i in range(3)
    }
    seen = completed(run, AWAIT_RECOVERY).value["cluster"]
    assert (seen["holds"], seen["crashed"]) == (True, {})
    assert run.judged.stored.report.complete
    nodes = run.run.path / "nodes"
    assert (nodes / "b0-0" / "node.log").stat().st_size > 0
    assert 0 < (nodes / "b0-0/store/commitlog/00000000000000000000").stat().st_size < 1 << 20


def test_too_few_ok_operations_are_unknown(tmp_path: Path) -> None:
    """Two threads cannot do 100000 operations a second: silence means nothing."""
    run = performed(
        tmp_path, options(rate=1e5, concurrency=2, nemesis=("none",), time_limit_ns=SECOND_NS // 5)
    )
    assert run.judged.results.valid == "unknown"
    [why] = [r.why for c, r in run.judged.results.claims.items() if c == "S6"]
    assert "needed" in why


class Crashes(Watched):
    """One node ends by itself two seconds after the machines are up."""

    victim, code = "b0-0", 3

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        await super().up(machines)
        asyncio.get_running_loop().call_later(2, self.crash, self.victim, self.code)


@pytest.mark.parametrize("victim", ["b0-0", "c0", "n0"])
def test_a_node_that_ends_by_itself_is_seen(tmp_path: Path, victim: str) -> None:
    class Mine(Crashes):
        pass

    Mine.victim = victim
    run = performed(tmp_path, options(nemesis=("none",)), make=Mine)
    assert run.failure is None
    seen = completed(run, AWAIT_RECOVERY).value["cluster"]
    assert (seen["holds"], seen["crashed"]) == (False, {victim: 3})
    if victim != "c0":  # a cluster without it never recovers: the wait has a bound
        assert 20_000 <= seen["after_ms"] <= 25_000
    assert "S15" in run.judged.results.of("broken")
    [found] = [a for a in run.judged.results.broken if a.claim == "S15"]
    assert (found.name, found.detail) == (
        "node-ended",
        {"node": victim, "after": None, "code": 3},
    )
    assert run.environment.downs == 1


class FailsInACallback(Watched):
    """A callback of a node fails: nobody awaits it, so only the loop knows."""

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        await super().up(machines)
        asyncio.get_running_loop().call_later(2, self._break)

    def _break(self) -> None:
        loop = self.machine("b0-0")._processes[-1].loop
        loop.call_soon(lambda: [][0])


def test_a_failed_callback_ends_a_node_as_it_would_end_a_process(tmp_path: Path) -> None:
    run = performed(tmp_path, options(nemesis=("none",)), make=FailsInACallback)
    assert completed(run, AWAIT_RECOVERY).value["cluster"]["crashed"] == {"b0-0": 1}
    assert "IndexError" in (run.run.path / "nodes" / "b0-0" / "node.log").read_text()
    assert "S15" in run.judged.results.of("broken")


class Unable(Watched):
    """Cannot start anything again."""

    capabilities = frozenset({Capability.KILL})


def test_a_missing_capability_is_refused_by_name_before_anything_starts(tmp_path: Path) -> None:
    run = performed(tmp_path, options(), make=Unable)
    assert isinstance(run.failure, MissingCapability)
    assert str(run.failure) == "simulated cannot do restart, which --nemesis kill needs"
    assert (run.environment.ups, run.environment.downs) == (0, 1)
    assert not run.said


class Impossible(Watched):
    """Cannot be had here."""

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        await super().up(machines)
        raise EnvironmentUnavailable("no such thing here")


def test_an_environment_that_cannot_be_had_is_brought_down_all_the_same(tmp_path: Path) -> None:
    run = performed(tmp_path, options(), make=Impossible)
    assert isinstance(run.failure, EnvironmentUnavailable)
    assert run.environment.downs == 1


class Misconfigures(ReferenceTarget):
    """Gives one broker settings that it refuses."""

    def config(self, node: Node, settings: Settings, addresses: dict[str, str], data: str) -> str:
        good = super().config(node, settings, addresses, data)
        return good + "noSuchKey=1\n" if node.name == "b1-0" else good


def test_a_node_that_does_not_start_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    run = performed(tmp_path, options(), target=Misconfigures())
    assert isinstance(run.failure, SetupFailed)
    text = str(run.failure)
    assert text.startswith("b1-0 did not start")
    assert "noSuchKey" in text
    assert "noSuchKey" in (run.run.path / "nodes" / "b1-0" / "node.log").read_text()
    assert not (run.run.path / "history.jsonl").exists()
    assert run.environment.downs == 1


class Ends(Watched):
    """The environment itself ends in the middle of the run."""

    async def lost(self) -> None:
        await asyncio.sleep(2)
        raise EnvironmentLost("the world is gone")


def test_an_environment_that_ends_ends_the_run_at_once_and_the_history_is_kept(
    tmp_path: Path,
) -> None:
    run = performed(tmp_path, options(time_limit_ns=60 * SECOND_NS), make=Ends)
    assert isinstance(run.failure, EnvironmentLost), "not a group of errors"
    stored = run.judged.stored
    assert not stored.report.complete
    assert 100 < len(stored.history) < 1000
    assert run.judged.results.valid == "unknown"
    assert run.environment.downs == 1


class ForgetsTheMutant(ReferenceTarget):
    """Starts correct brokers, whatever was asked for."""

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        command = list(super().argv(node, settings, config_path))
        return command[: command.index("--mutant")] if "--mutant" in command else command


class AddsAMutant(ReferenceTarget):
    """Starts brokers with a seeded bug that nobody asked for."""

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        more = ["--mutant", "ack_before_write"] if node.role is Role.BROKER else []
        return [*super().argv(node, settings, config_path), *more]


def test_a_mutant_that_did_not_run_proves_nothing(tmp_path: Path) -> None:
    run = performed(tmp_path, options(mutant="ack_before_write"), target=ForgetsTheMutant())
    assert run.judged.results.valid == "unknown"
    faults = next(v for v in run.judged.results.verdicts if v.checker == "faults")
    assert "inspect" in faults.reason


def test_a_mutant_that_nobody_asked_for_hides_no_violation(tmp_path: Path) -> None:
    def broken(world: object) -> Watched:
        return Watched(world, mutant="ack_before_write")  # type: ignore[arg-type]

    run = performed(
        tmp_path,
        options(time_limit_ns=15 * SECOND_NS, seed=1),
        make=broken,
        target=AddsAMutant(),
    )
    verdicts = {v.checker: v.valid for v in run.judged.results.verdicts}
    assert (verdicts["faults"], verdicts["durability"]) == ("unknown", False)
    assert run.judged.results.valid is False
