"""What reaches whom: cuts between machines and changes of address, each with its proof.

A cut is proven for each machine that drops packets: a probe from each source, by that machine
itself, meets nothing (or a reset), and the rule has caught packets of it. Whether a process runs
there does not matter: without the cut a machine whose node is down would refuse. So faults of nodes
and cuts prove themselves apart, and a heal asks only that no rule is left and that each source
meets something, a listener or a refusal. Units: seconds.

A change of address is proven by the node answering at the new address (refusing, where it is down)
and nobody at the old one. Anyone who compares addresses must ask the machine for its present one. A
node that had to be killed for it, as it did not stop in time, has another address as well.
"""

import asyncio
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from maxq.harness.client.probes import PROBE_TIMEOUT_S, met, until
from maxq.harness.cluster.processes import Nodes
from maxq.harness.cluster.ways.ways import Ways
from maxq.harness.contracts.cluster import Grudge, Proof
from maxq.harness.contracts.environment import (
    CLIENT,
    CLIENT_ADDRESS,
    Cut,
    Environment,
    Machine,
    Port,
)
from maxq.harness.contracts.ways import Ports

CUT_PROBE_TIMEOUT_S = 1.0  # far beyond what an answer takes here, far below a client's patience
CUT_TIMEOUT_S, HEAL_TIMEOUT_S, ANSWER_TIMEOUT_S = 5.0, 10.0, 10.0


class Links:
    """Cuts and addresses of a run's machines.

    Args:
        environment: whose machines.
        nodes: what runs on them.
        ways: between them.
        by_name: whether machines know each other by name.
    """

    def __init__(
        self, environment: Environment, nodes: Nodes, ways: Ways, *, by_name: bool
    ) -> None:
        self._environment = environment
        self._nodes = nodes
        self._ways = ways
        self._by_name = by_name
        # By name: who from whom, with resets?, on connections to which ports.
        self._cuts: dict[str, tuple[Grudge, bool, Ports]] = {}
        self._first: dict[str, str] = {}

    # Cuts.

    async def cut(
        self,
        grudge: Grudge,
        *,
        reset: bool = False,
        name: str = "",
        patience_s: float = CUT_PROBE_TIMEOUT_S,
        ports: Ports = "all",
    ) -> Mapping[str, Proof]:
        wanted = self._nodes.between(grudge)
        if CLIENT in wanted:
            raise ValueError("cuts are made in the machines of nodes: clients take every packet")
        before, *_ = self._cuts.pop(name, ({},))
        self._cuts[name] = wanted, reset, ports
        await self._install([*wanted, *before])
        slow_s = self._ways.slowness({*wanted, *set().union(*wanted.values())})
        seen: dict[str, Proof] = {}

        async def caught() -> bool:
            seen.update(await self._cut_proofs(wanted, patience_s + slow_s, ports))
            return all(proof.holds for proof in seen.values())

        await until(caught, CUT_TIMEOUT_S + slow_s)
        return self._nodes.of_all(seen)

    async def _install(self, machines: Iterable[str]) -> None:
        """Let machines drop what all cuts together say."""
        for to in dict.fromkeys(machines):
            await self._nodes.machine(to).cut(self._cuts_at(to))

    def _cuts_at(self, to: str) -> list[Cut]:
        """Which packets a machine drops, and whether by a reset; the newest cut says how."""
        found: dict[tuple[str, tuple[int, ...]], bool] = {}
        for grudge, reset, kind in self._cuts.values():
            for source in grudge.get(to, frozenset()):
                ports = () if source == CLIENT else self._ways.ports(kind, to, source)
                if ports is not None:
                    found[source, ports] = reset
        return [
            Cut(source=source, block=self._block(source), reset=reset, ports=ports)
            for (source, ports), reset in sorted(found.items())
        ]

    def _block(self, source: str) -> str:
        return f"{CLIENT_ADDRESS}/32" if source == CLIENT else self._nodes.machine(source).block

    def _cut_off(self, to: str) -> dict[str, bool]:
        """Of whom a machine drops packets, of some ports at least, and whether by a reset."""
        return {cut.source: cut.reset for cut in self._cuts_at(to)}

    async def _cut_proofs(self, grudge: Grudge, patience_s: float, kind: Ports) -> dict[str, Proof]:
        met_by = await self._ways.probes(grudge, patience_s, kind)
        proofs = {}
        for to, sources in grudge.items():
            packets = await self._nodes.machine(to).cut_packets()
            caught = {source: packets.get(source, 0) for source in sorted(sources)}
            resets = self._cut_off(to)
            holds = all(
                caught[source] and (port == "silent" or (port == "refused" and resets.get(source)))
                for source, port in met_by[to].items()
            )
            proofs[to] = Proof(holds, {"from": caught, "met": met_by[to]})
        return proofs

    async def heal(self, *, name: str | None = None) -> Mapping[str, Proof]:
        names = list(self._cuts) if name is None else [n for n in self._cuts if n == name]
        healed: dict[str, frozenset[str]] = {}
        for each in names:
            for to, sources in self._cuts.pop(each)[0].items():
                healed[to] = healed.get(to, frozenset()) | sources
        await self._install(healed)
        free = {
            to: self._ways.lossless(to, self._unhindered(to, sources))
            for to, sources in healed.items()
        }
        patience_s = PROBE_TIMEOUT_S + self._ways.slowness({*free, *set().union(*free.values())})
        seen: dict[str, Proof] = {}

        async def whole() -> bool:
            met_by = await self._ways.probes(free, patience_s)
            for to in healed:
                ports = met_by.get(to, {})
                rules = len(await self._nodes.machine(to).cut_packets())
                holds = rules == len(self._cut_off(to)) and "silent" not in ports.values()
                seen[to] = Proof(holds, {"rules": rules, "met": ports})
            return all(proof.holds for proof in seen.values())

        await until(whole, HEAL_TIMEOUT_S)
        return self._nodes.of_all(seen)

    def _unhindered(self, to: str, sources: frozenset[str]) -> frozenset[str]:
        """Whose probes of a machine no cut stops, on the way there or back."""
        there = sources - self._cut_off(to).keys()
        return frozenset(source for source in there if to not in self._cut_off(source))

    # Addresses.

    async def name_machines(self) -> None:
        """Tell every machine what the names of all machines mean now."""
        if not self._by_name:
            return
        machines = [self._nodes.machine(name) for name in self._nodes.processes]
        hosts = {machine.name: machine.address for machine in machines}
        for machine in machines:
            await machine.set_hosts(hosts)

    async def change_address(self, node: str, *, restart: bool) -> Proof:
        machine = self._nodes.machine(node)
        self._first.setdefault(machine.name, machine.address)
        return await self._change(node, next_address(machine), restart=restart)

    async def restore_address(self, node: str, *, restart: bool) -> Proof:
        address = self._nodes.machine(node).address
        first = self._first.get(self._nodes.process(node), address)
        if first == address:
            why = "it has its first address"
            return Proof(True, {"from": address, "to": address, "reason": why})
        return await self._change(node, first, restart=restart)

    async def _change(self, node: str, address: str, *, restart: bool) -> Proof:
        machine, before = self._nodes.machine(node), self._nodes.machine(node).address
        running = self._nodes.running(node)
        restart = restart or not self._nodes.follows_address(node)
        steps: dict[str, Any] = {}
        holds = True
        if restart and running:
            stopped = await self._nodes.stop(node)
            holds, steps = stopped.holds, {"stopped": stopped.seen, **stopped.forced}
        await machine.set_address(address)
        await self.name_machines()
        if restart and running:
            started = await self._nodes.start(node)
            holds, steps["started"] = holds and started.holds, started.seen
        seen = await self._answers(node, before)
        expected = "open" if running else "refused"
        holds = holds and seen == {"now": expected, "before": "silent"}
        return Proof(holds, {"from": before, "to": address, "restart": restart, **seen, **steps})

    async def _answers(self, node: str, before: str) -> dict[str, Port]:
        """What an observer meets at the new and at the old address."""

        async def answers() -> bool:
            return await self._nodes.port(node) != "silent"

        await until(answers, ANSWER_TIMEOUT_S)  # a switch or a neighbour may still have to learn
        dialled = self._environment.observer_dial(
            asyncio.Protocol, before, self._nodes.node(node).port
        )
        return {"now": await self._nodes.port(node), "before": await met(dialled, PROBE_TIMEOUT_S)}


def next_address(machine: Machine) -> str:
    """The address after a machine's present one, in its block, round and round."""
    block = IPv4Network(machine.block)
    offset = int(IPv4Address(machine.address)) - int(block.network_address) + 1
    return str(block.network_address + offset % block.num_addresses)
