"""Slow ways of a deployed cluster in the simulator, with their proofs; and as they are proven where
connections go through proxies."""

import asyncio
from typing import Any

import pytest
from run_in_world import Watched, with_cluster

from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.cluster import Direction
from maxq.harness.contracts.environment import CLIENT, Delay, Detour, Echo
from maxq.harness.contracts.ways import Ports

PEERS = ["n0", "c0", "b0-0", "b0-1", "b0-2"]
RING: dict[str, Any] = {"broker_sets": 1, "replicas": 3, "controllers": 3}


def test_a_delay_is_proven_by_the_machine_and_by_who_dials() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.links.cut({"b0-0": frozenset({"c0", CLIENT})})
        proof = await cluster.delays.delay("b0-0", ms=300, peers=PEERS, ways="in")
        assert proof.holds, proof
        dials = proof.seen["dials"]
        assert dials["c0"]["met"] == "silent", "a cut hides it"
        assert dials["n0"]["met"] == "open"
        assert dials["n0"]["ms"] >= 300
        assert cluster.delays.delaying("b0-0")
        back = await cluster.delays.stop_delay("b0-0")
        assert back.holds, back
        assert back.seen["dials"]["n0"]["ms"] < 300
        assert not cluster.delays.delaying("b0-0")

    with_cluster(main, **RING)


def test_a_delay_that_nobody_feels_is_none() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        machine = environment.machine("b0-0")
        cut, set_delay = machine.delays, machine.set_delay

        async def deaf(delays: Any) -> None:
            """Packets come as ever."""

        async def strikes() -> bool:
            return (await cluster.delays.delay("b0-0", ms=300, peers=PEERS, ways="in")).holds

        machine.set_delay = deaf  # type: ignore[method-assign]
        assert not await strikes()
        machine.set_delay = set_delay  # type: ignore[method-assign]
        assert await strikes()
        machine.set_delay = deaf  # type: ignore[method-assign]
        assert await cut()
        assert not (await cluster.delays.stop_delay("b0-0")).holds

    with_cluster(main, **RING)


def late(environment: Watched, to: str) -> dict[str, tuple[int, ...]]:
    """Whose packets come late to a machine, and on which ports."""
    rules = environment.machine(to)._machine.stack.delays
    return {rule.delay.source: rule.delay.ports for rule in rules}


@pytest.mark.parametrize(
    ("ways", "ports", "to", "there", "back"),
    [
        ("in", "all", "b0-1", {"b0-0": ()}, {}),
        ("out", "all", "b0-1", {}, {"b0-1": ()}),
        ("both", "ha", "b0-1", {"b0-0": (10912,)}, {"b0-1": (10912,)}),
        ("in", "remoting", "b0-1", {"b0-0": (10909, 10911)}, {}),
    ],
)
def test_packets_are_late_in_the_directions_and_on_the_ports_that_were_asked_for(
    ways: Direction, ports: Ports, to: str, there: dict[str, Any], back: dict[str, Any]
) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        proof = await cluster.delays.delay(to, ms=40, peers=["b0-0"], ways=ways, ports=ports)
        assert proof.holds, proof
        assert (late(environment, to), late(environment, "b0-0")) == (there, back)
        assert (await cluster.delays.stop_delay(to)).holds
        assert (late(environment, to), late(environment, "b0-0")) == ({}, {})

    with_cluster(main, **RING)


def test_controllers_agree_at_ports_that_are_no_brokers_business() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        raft: dict[str, Any] = {"ms": 40, "ways": "in", "ports": "raft"}
        proof = await cluster.delays.delay("c0", peers=["c1", "b0-0"], **raft)
        assert proof.holds, proof
        assert late(environment, "c0") == {"c1": (9878, 9879)}
        nobody = await cluster.delays.delay("b0-1", peers=["c1", "b0-0"], **raft)
        assert nobody.seen == {"reason": "no other node with raft ports was named"}
        await cluster.delays.delay("c0", ms=40, peers=["c1", "b0-0"], ways="in", ports="remoting")
        assert late(environment, "c0") == {"b0-0": (9878, 10909, 10911)}

    with_cluster(main, **RING)


def test_a_delay_of_one_node_stays_where_that_of_another_ends() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.delays.delay("b0-0", ms=300, peers=["b0-1"], ways="out")
        await cluster.delays.delay("b0-1", ms=100, peers=["b0-0"], ways="in")
        both = environment.machine("b0-1")._machine.stack.delays
        assert sorted(rule.delay.ms for rule in both) == [100, 300]
        assert (await cluster.delays.stop_delay("b0-0")).holds
        assert [d.ms for d in await environment.machine("b0-1").delays()] == [100]

    with_cluster(main, **RING)


GOOD = Detour((), 3)


@pytest.mark.parametrize(
    ("detour", "echo", "holds"),
    [
        (GOOD, Echo(220.0, 99.0), True),
        (GOOD, Echo(148.0, 99.0), False),
        (GOOD, Echo(220.0, 112.0), False),
        (GOOD, Echo(220.0, 88.0), False),
        (GOOD, Echo(220.0, None), False),
        (Detour((), 0), Echo(220.0, 99.0), False),
        (Detour(("198.18.0.2:40000>198.18.0.3:10911",), 3), Echo(220.0, 99.0), False),
    ],
)
def test_where_connections_go_through_proxies_all_must_and_those_must_be_slow(
    detour: Detour, echo: Echo, holds: bool
) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        for node in ("b0-0", "b0-1"):
            proxied(environment, node, detour, echo)
        proof = await cluster.delays.delay(
            "b0-1", ms=200, jitter_ms=50, kb_s=100, peers=["b0-0"], ways="in", ports="ha"
        )
        assert proof.holds is holds, proof
        assert proof.seen["straight"] == list(detour.straight)
        assert proof.seen["echo_ms"] == {"b0-1": echo.ms, "b0-0": echo.ms}

    with_cluster(main, **RING)


def test_brokers_whose_answers_are_prompt_prove_that_nothing_is_late() -> None:
    """Although everything else says so; and the answers say when it is over."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        machine = environment.machine("b0-1")
        real = machine.set_delay
        for node in ("b0-0", "b0-1"):
            proxied(environment, node, GOOD, Echo(300.0))
        machine.set_delay = keeping(machine)  # type: ignore[method-assign]
        prompt = await cluster.delays.delay("b0-1", ms=200, peers=["b0-0"], ways="in")
        assert not prompt.holds
        assert max(prompt.seen["asked_ms"].values()) < 200
        machine.set_delay, machine.delays = real, type(machine).delays.__get__(machine)  # type: ignore[method-assign]
        slow = await cluster.delays.delay("b0-1", ms=200, peers=["b0-0"], ways="in")
        assert slow.holds, slow
        assert slow.seen["asked_ms"].keys() == {"b0-0>b0-1", "b0-1>b0-0"}
        assert min(slow.seen["asked_ms"].values()) >= 200
        over = await cluster.delays.stop_delay("b0-1")
        assert over.holds, over
        assert max(over.seen["asked_ms"].values()) < 200

    with_cluster(main, **RING)


def keeping(machine: Any) -> Any:
    """Takes delays, says that it has them, and lets packets come as ever."""

    async def set_delay(delays: list[Delay]) -> None:
        async def said() -> list[Delay]:
            return delays

        machine.delays = said

    return set_delay


def proxied(environment: Watched, node: str, detour: Detour, echo: Echo) -> None:
    """Have a machine say these of its proxies. Packets themselves are late, without a bound."""
    machine = environment.machine(node)
    real = machine.set_delay

    async def set_delay(delays: list[Delay]) -> None:
        await real([Delay(d.source, d.block, d.ms, d.jitter_ms, 0, d.ports) for d in delays])

        async def said() -> list[Delay]:
            return delays

        machine.delays = said  # type: ignore[method-assign]

    async def seen() -> Detour:
        return detour

    async def heard(peer: str) -> Echo:
        return echo

    machine.set_delay, machine.detour, machine.echo = set_delay, seen, heard  # type: ignore


def test_delays_of_two_nodes_that_end_at_once_are_both_gone_where_they_met() -> None:
    """What one heal lets a machine have must not come back by the other, which was slower."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        for node in ("b0-1", "b0-2"):
            await cluster.delays.delay(node, ms=300, peers=["b0-0"], ways="both")
        shared = environment.machine("b0-0")
        set_delay, turns = shared.set_delay, iter((2.0, 0.0))

        async def slow(delays: Any) -> None:
            await asyncio.sleep(next(turns))
            await set_delay(delays)

        assert len(await shared.delays()) == 2
        shared.set_delay = slow  # type: ignore[method-assign]
        proofs = await asyncio.gather(*map(cluster.delays.stop_delay, ("b0-1", "b0-2")))
        assert [proof.holds for proof in proofs] == [True, True], proofs
        assert await shared.delays() == []

    with_cluster(main, **RING)
