"""The ways between machines of a run: what probes meet on them, what makes them slow, and lossy.

Other faults must know of slow and lossy ways: a probe that is late, or that meets nothing by
chance, says nothing of a cut. Which packets are lost is remembered here, of each node that loses
some; delays are asked of the machines. Units: seconds, unless a name says otherwise.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from maxq.harness.client.probes import met
from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.cluster import Direction, Grudge
from maxq.harness.contracts.environment import CLIENT, Capability, Environment, Port
from maxq.reference.rpc import split_address

Met = dict[str, dict[str, Port]]  # destination -> source -> what its probe met
Way = tuple[str, str]  # destination, source


class Losing(msgspec.Struct, frozen=True):
    """A node between which and its `peers` so many `percent` of the packets are lost: of those to
    the node (``in``), of those from it (``out``), or ``both``."""

    peers: tuple[str, ...]
    percent: int
    ways: Direction

    def directions(self, node: str) -> tuple[list[Way], list[Way]]:
        """The ways to the node on which packets are lost, and those from it."""
        return (
            [(node, peer) for peer in self.peers if self.ways != "out"],
            [(peer, node) for peer in self.peers if self.ways != "in"],
        )


class Ways:
    """The ways between machines.

    Args:
        environment: whose machines.
        nodes: what runs on them.
    """

    def __init__(self, environment: Environment, nodes: Nodes) -> None:
        self._environment = environment
        self._nodes = nodes
        self.losing: dict[str, Losing] = {}  # by node

    # Losses.

    def _lossy(self) -> Iterator[tuple[Way, int]]:
        for node, losing in self.losing.items():
            for every in losing.directions(node):
                for way in every:
                    yield way, losing.percent

    def lost_at(self, to: str) -> Mapping[str, int]:
        """Whose packets a machine loses, and how many percent: of losses of both ends of a way the
        higher share."""
        found: dict[str, int] = {}
        for (target, source), percent in self._lossy():
            if target == to:
                found[source] = max(percent, found.get(source, 0))
        return found

    def lossless(self, to: str, sources: Iterable[str]) -> frozenset[str]:
        """Those of the sources between which and a machine no packets are lost, on no way."""
        lossy = {way for way, _ in self._lossy()}
        return frozenset(s for s in sources if not lossy & {(to, s), (s, to)})

    # Delays.

    async def slowness(self, names: Iterable[str]) -> float:
        """How long an answer between two of them may be on its way by delays."""
        if Capability.DELAY not in self._environment.capabilities:
            return 0.0
        machines = [self._nodes.machine(name) for name in sorted(set(names) - {CLIENT})]
        delays = [max((await machine.delays()).values(), default=0) for machine in machines]
        return sum(sorted(delays)[-2:]) / 1000

    # Probes.

    async def probes(self, grudge: Grudge, timeout_s: float) -> Met:
        """Dial each destination from each of its sources, all at once."""
        async with asyncio.TaskGroup() as group:
            tasks = {
                (to, source): group.create_task(self.probe(source, to, timeout_s))
                for to, sources in grudge.items()
                for source in sorted(sources)
            }
        found: Met = {}
        for (to, source), task in tasks.items():
            found.setdefault(to, {})[source] = task.result()
        return found

    async def probe(self, source: str, to: str, timeout_s: float) -> Port:
        """Dial a node from a machine, or as a client does."""
        host, port = split_address(self._nodes.address(to))
        if source == CLIENT:
            return await met(self._environment.dial(asyncio.Protocol, host, port), timeout_s)
        return await self._nodes.machine(source).probe(host, port, timeout_s=timeout_s)
