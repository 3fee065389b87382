"""The ways between machines of a run: what probes meet on them, what makes them slow, and lossy.

Other faults must know of slow and lossy ways: a probe that is late, or that meets nothing by
chance, says nothing of a cut. Which packets are lost or late is remembered here, of each node of
which some are. Units: seconds, unless a name says otherwise.
"""

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from maxq.harness.client.probes import met
from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.cluster import Direction, Grudge
from maxq.harness.contracts.environment import CLIENT, Delay, Environment, Loss, Port
from maxq.harness.contracts.ways import Ports
from maxq.reference.rpc import split_address

Met = dict[str, dict[str, Port]]  # destination -> source -> what its probe met
Way = tuple[str, str]  # destination, source


class Impaired(msgspec.Struct, frozen=True):
    """A node of which packets from its `peers` are impaired (``in``), those to them (``out``), or
    ``both``."""

    peers: tuple[str, ...]
    ways: Direction

    def directions(self, node: str) -> tuple[list[Way], list[Way]]:
        """The ways to the node that are, and those from it."""
        return (
            [(node, peer) for peer in self.peers if self.ways != "out"],
            [(peer, node) for peer in self.peers if self.ways != "in"],
        )


class Losing(Impaired, frozen=True):
    """So many `percent` of them are lost, on connections to these ports."""

    percent: int
    ports: Ports = "all"


class Delaying(Impaired, frozen=True):
    """They are late, and bounded, as `Delay` says, on connections to these ports."""

    ms: int
    jitter_ms: int
    kb_s: int
    ports: Ports

    @property
    def least_ms(self) -> int:
        """How late every packet is at least."""
        return self.ms - self.jitter_ms

    @property
    def most_ms(self) -> int:
        return self.ms + self.jitter_ms


class Ways:
    """The ways between machines.

    Args:
        environment: whose machines.
        nodes: what runs on them.
    """

    def __init__(self, environment: Environment, nodes: Nodes) -> None:
        self._environment = environment
        self._nodes = nodes
        self.losing: dict[str, Losing] = {}  # this and the next by node
        self.delaying: dict[str, Delaying] = {}

    # Losses.

    def _lossy(self) -> Iterator[tuple[Way, Losing]]:
        for node, losing in self.losing.items():
            for every in losing.directions(node):
                for way in every:
                    yield way, losing

    def losses_at(self, to: str) -> list[Loss]:
        """Whose packets a machine loses: of losses of both ends of a way the higher share."""
        found: dict[tuple[str, tuple[int, ...]], int] = {}
        for (target, source), losing in self._lossy():
            if target == to and (ports := self.ports(losing.ports, to, source)) is not None:
                found[source, ports] = max(losing.percent, found.get((source, ports), 0))
        return [
            Loss(source, self._nodes.machine(source).block, percent, ports)
            for (source, ports), percent in sorted(found.items())
        ]

    def lossless(self, to: str, sources: Iterable[str]) -> frozenset[str]:
        """Those of the sources between which and a machine no packets are lost, on no way."""
        lossy = {way for way, _ in self._lossy()}
        return frozenset(s for s in sources if not lossy & {(to, s), (s, to)})

    # Delays.

    def delays_at(self, to: str) -> list[Delay]:
        """Whose packets to a machine are late."""
        return [
            Delay(
                source,
                self._nodes.machine(source).block,
                delaying.ms,
                delaying.jitter_ms,
                delaying.kb_s,
                ports,
            )
            for node, delaying in self.delaying.items()
            for every in delaying.directions(node)
            for target, source in every
            if target == to and (ports := self.ports(delaying.ports, to, source)) is not None
        ]  # fmt: skip

    def ports(self, kind: Ports, one: str, other: str) -> tuple[int, ...] | None:
        """The ports of a kind at which two machines are connected: none where all are meant, and
        None where there are none."""
        if kind == "all":
            return ()
        ends = [self._nodes.listening(one), self._nodes.listening(other)]
        agreeing = all("raft" in end for end in ends)
        if kind == "raft" and not agreeing:
            return None
        found = frozenset[int]().union(*(end.get(kind, frozenset()) for end in ends))
        if kind == "remoting" and agreeing:
            found = found.difference(*(end["raft"] for end in ends))
        return tuple(sorted(found)) or None

    def others(self, node: str, peers: Iterable[str], ports: Ports) -> tuple[tuple[str, ...], str]:
        """The machines of a node's peers that are connected with its own by ports of a kind; or why
        there is none."""
        machines = dict.fromkeys(self._nodes.process(peer) for peer in peers)
        found = tuple(
            peer for peer in machines
            if peer != node and self.ports(ports, node, peer) is not None
        )  # fmt: skip
        what = "" if ports == "all" else f" with {ports} ports"
        return found, "" if found else f"no other node{what} was named"

    @property
    def narrowest(self) -> int:
        """The least bandwidth that any way has now, in kB/s; 0: none is bounded."""
        return min((d.kb_s for d in self.delaying.values() if d.kb_s), default=0)

    def slowness(self, names: Iterable[str]) -> float:
        """How long an answer between two of them may be on its way by delays."""
        machines = sorted(set(names) - {CLIENT})
        delays = [
            max((d.ms + d.jitter_ms for d in self.delays_at(name)), default=0) for name in machines
        ]
        return sum(sorted(delays)[-2:]) / 1000

    # Probes.

    def dialled(self, to: str, ports: Ports) -> tuple[str, int]:
        """Host and port of a machine at which a dial is one to ports of a kind."""
        host, port = split_address(self._nodes.address(to))
        if ports == "all":
            return host, port
        return host, min(self._nodes.listening(to).get(ports, frozenset((port,))))

    async def probes(self, grudge: Grudge, timeout_s: float, ports: Ports = "all") -> Met:
        """Dial each destination from each of its sources, all at once."""
        async with asyncio.TaskGroup() as group:
            tasks = {
                (to, source): group.create_task(self.probe(source, to, timeout_s, ports))
                for to, sources in grudge.items()
                for source in sorted(sources)
            }
        found: Met = {}
        for (to, source), task in tasks.items():
            found.setdefault(to, {})[source] = task.result()
        return found

    async def probe(self, source: str, to: str, timeout_s: float, ports: Ports = "all") -> Port:
        """Dial a node from a machine, or as a client does."""
        host, port = self.dialled(to, ports)
        if source == CLIENT:
            return await met(self._environment.dial(asyncio.Protocol, host, port), timeout_s)
        return await self._nodes.machine(source).probe(host, port, timeout_s=timeout_s)
