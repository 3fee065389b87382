"""The kill nemesis against a fake cluster: whom it hits, what it says, what it starts again."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

from harness.client.outcome import Client, Fail, Ok, Outcome
from harness.cluster import Part, Proof
from harness.environments.api import Capability, Role
from harness.generators import time_limit
from harness.generators.simulate import after, simulate
from harness.targets.api import Node, Topology, plan
from histories.op import NEMESIS, Op
from nemeses.process import DOWN_NS, QUIET_NS, kill_package

SECOND_NS = 1_000_000_000
BROKER_ONLY: tuple[Part, ...] = ("broker",)


class FakeCluster:
    """Knows who runs; a process may have ended by itself."""

    def __init__(self) -> None:
        self.nodes = plan(Topology(broker_sets=3))
        self.dead: set[str] = set()
        self.ended_alone: set[str] = set()
        self.killed: list[str] = []
        self.started: list[str] = []

    dial: Any = None

    def by_role(self, role: Role) -> Sequence[Node]:
        return [n for n in self.nodes if n.role is role]

    async def playing(self, part: Part) -> Sequence[str]:
        """Every first replica is a master here, and nobody leads the controllers."""
        roles = {"master": Role.BROKER, "slave": None, "controller-leader": None}
        role = roles[part] if part in roles else Role(part)
        return [n.name for n in self.nodes if n.role is role and self.running(n.name)]

    def address(self, node: str) -> str:
        return node

    def namesrvs(self) -> Sequence[str]:
        return []

    def running(self, node: str) -> bool:
        return node not in self.dead

    async def power_loss(self, node: str) -> Proof:
        return await self.kill(node)

    async def kill(self, node: str) -> Proof:
        self.killed.append(node)
        self.dead.add(node)
        return Proof(node not in self.ended_alone, {"pid": 5, "code": -9, "port": "refused"})

    async def start(self, node: str) -> Proof:
        self.started.append(node)
        self.dead.discard(node)
        return Proof(True, {"pid": 6, "code": None, "port": "open"})


def invoke(nemesis: Client, *fs: str) -> list[Outcome]:
    async def main() -> list[Outcome]:
        return [await nemesis.invoke(Op("info", NEMESIS, f)) for f in fs]

    return asyncio.run(main())


def test_the_victim_runs_and_has_the_role() -> None:
    cluster = FakeCluster()
    nemesis = kill_package(cluster, Random(1), BROKER_ONLY).nemesis
    invoke(nemesis, "kill", "kill", "kill")
    assert sorted(cluster.killed) == ["b0-0", "b1-0", "b2-0"], "nobody is killed twice"


def test_a_completed_kill_says_who_why_and_how_it_was_seen() -> None:
    cluster = FakeCluster()
    [outcome] = invoke(kill_package(cluster, Random(1), BROKER_ONLY).nemesis, "kill")
    seen = {"holds": True, "role": "broker", "pid": 5, "code": -9, "port": "refused"}
    assert outcome == Ok({cluster.killed[0]: seen})


def test_a_process_that_ended_by_itself_is_not_our_kill() -> None:
    cluster = FakeCluster()
    cluster.ended_alone = {n.name for n in cluster.nodes}
    [outcome] = invoke(kill_package(cluster, Random(1), BROKER_ONLY).nemesis, "kill")
    assert isinstance(outcome, Ok)
    assert [seen["holds"] for seen in outcome.value.values()] == [False]


def test_a_part_that_nobody_plays_is_passed_over() -> None:
    cluster = FakeCluster()
    cluster.dead = {"n0", "c0", "b0-0"}
    nemesis = kill_package(cluster, Random(1), ("namesrv", "controller", "broker")).nemesis
    invoke(nemesis, "kill", "kill")
    assert sorted(cluster.killed) == ["b1-0", "b2-0"]


def test_where_nobody_leads_another_part_is_hit() -> None:
    cluster = FakeCluster()
    nemesis = kill_package(cluster, Random(1), ("slave", "controller-leader", "master")).nemesis
    [outcome] = invoke(nemesis, "kill")
    assert isinstance(outcome, Ok)
    assert [seen["role"] for seen in outcome.value.values()] == ["master"]


def test_nobody_to_kill_is_said() -> None:
    cluster = FakeCluster()
    cluster.dead = {n.name for n in cluster.nodes}
    [outcome] = invoke(kill_package(cluster, Random(1), ("broker", "broker")).nemesis, "kill")
    assert outcome == Fail(["nobody-to-kill", "broker"])
    assert not cluster.killed


def test_start_starts_everything_that_is_dead_also_what_was_killed_before() -> None:
    cluster = FakeCluster()
    nemesis = kill_package(cluster, Random(1), BROKER_ONLY).nemesis
    invoke(nemesis, "kill", "kill")
    cluster.dead.add("n0")
    [outcome] = invoke(nemesis, "start")
    assert isinstance(outcome, Ok)
    assert set(outcome.value) == {"n0", *cluster.killed}
    assert all(seen["holds"] and seen["port"] == "open" for seen in outcome.value.values())
    [idle] = invoke(nemesis, "start")
    assert idle == Ok({"nobody": {"holds": True, "reason": "every node was running"}})


def test_a_role_named_thrice_is_hit_thrice_as_often() -> None:
    hits = {"broker": 0, "namesrv": 0}
    cluster = FakeCluster()
    parts: tuple[Part, ...] = ("broker", "broker", "broker", "namesrv")
    nemesis = kill_package(cluster, Random(1), parts).nemesis
    for outcome in invoke(nemesis, *["kill", "start"] * 400)[::2]:
        assert isinstance(outcome, Ok)
        [seen] = outcome.value.values()
        hits[seen["role"]] += 1
    assert 2.4 < hits["broker"] / hits["namesrv"] < 3.7


def test_the_package_kills_and_starts_in_turn_and_heals_at_the_end() -> None:
    package = kill_package(FakeCluster(), Random(1), BROKER_ONLY)
    assert package.needs == {Capability.KILL, Capability.RESTART}
    assert package.fs == {"kill", "start"}
    seen = simulate(
        time_limit(20 * SECOND_NS, package.generator), concurrency=0, complete=after(1000)
    ).invocations
    assert [op.f for op in seen] == (["kill", "start"] * 20)[: len(seen)]
    assert len(seen) == 11
    gaps = [b.time - a.time for a, b in pairwise(seen)]
    assert gaps[0::2] == [DOWN_NS + 1000] * len(gaps[0::2])
    assert gaps[1::2] == [QUIET_NS + 1000] * len(gaps[1::2])
    [end] = simulate(package.final_generator, concurrency=0).invocations
    assert end.f == "start"
