"""What the acts of one run share: the cluster, whom each act has struck, which cuts are in effect.

Draws are keyed by the act that they are for, so that to remove one act leaves the others as they
were.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from random import Random
from typing import Any

from maxq.harness.contracts.cluster import (
    Ailing,
    Cluster,
    Grudge,
    HostingBrokers,
    Killable,
    Partitionable,
    Pausable,
    Proof,
)

Told = Mapping[str, dict[str, object]]  # what was done to each node, with the proof
Verb = Callable[[str], Awaitable[Proof]]

PATIENCE_S = 0.15  # of a cut's probes: their own packets, once caught, are the proof
UNWRITABLE = frozenset({"frozen-disk", "full-disk"})


class Stage:
    """The state of a performance.

    Args:
        cluster: whose nodes.
        key: of all draws.
        keys: (topic, broker set, queue id) of each key of the run's queues, in order.
    """

    def __init__(
        self, cluster: Cluster, key: str, keys: Sequence[tuple[str, str, int]] = ()
    ) -> None:
        self.cluster = cluster
        self.keys = keys
        self._key = key
        self.nodes = {n.name: n for n in cluster.nodes if not n.spare}
        self._beside: dict[str, list[str]] = {}  # by process
        for name, node in self.nodes.items():
            self._beside.setdefault(node.process, []).append(name)
        self.struck: dict[str, list[str]] = {}  # by act
        self._cuts: dict[str, str] = {}  # acts whose cuts are in force, each with its kind
        self.settled: set[str] = set()  # nodes whose address changed for good
        self.ended: frozenset[str] = frozenset()  # nodes that a disk fault may have ended

    async def look(self) -> None:
        """Find out which nodes have ended by themselves, and may: their disk was at fault."""
        processes = self.cluster.offers(Killable)
        self.ended = frozenset(n for n in await processes.crashed() if processes.excused(n))

    @property
    def apart(self) -> list[str]:
        """One node of each machine."""
        return [names[0] for names in self._beside.values()]

    def beside(self, node: str) -> Sequence[str]:
        """All nodes of a node's process, or of the container of that name."""
        known = self.nodes.get(node)
        return self._beside.get(node if known is None else known.process, [node])

    def spread(self, grudge: Grudge) -> Grudge:
        """A cut as one between machines: who is on one of them hears, or does not, as the others
        there."""
        found: dict[str, set[str]] = {}
        for to, sources in grudge.items():
            cut_off = {name for s in sources for name in self.beside(s)}.difference(self.beside(to))
            for name in self.beside(to) if cut_off else ():
                found.setdefault(name, set()).update(cut_off)
        return {to: frozenset(sources) for to, sources in found.items()}

    def role(self, node: str) -> str:
        known = self.nodes.get(node)
        return known.role.value if known is not None else node

    def up(self, node: str) -> bool:
        return self.cluster.offers(Killable).running(node) and node not in self.ended

    def writable(self, node: str) -> bool:
        """Whether the node's disk takes anything: on another one nothing is started or stopped in
        good order."""
        return not UNWRITABLE & self.ailments(node)

    def removed(self, node: str) -> bool:
        """Whether a fault has removed the node from a container that goes on."""
        inside = node in self.nodes and bool(self.nodes[node].container)
        return inside and self.cluster.offers(HostingBrokers).removed(node)

    def ailments(self, node: str) -> Set[str]:
        """What faults have made of the node's machine."""
        return self.cluster.offers(Ailing).ailments(node)

    def paused(self, node: str) -> bool:
        """Whether a fault holds the node."""
        return self.cluster.offers(Pausable).paused(node)

    def draws(self, act: str) -> Random:
        """The act's own stream."""
        return Random(f"{self._key}/{act}")

    async def cut(
        self, act: str, kind: str, grudge: Grudge, *, reset: bool = False
    ) -> Mapping[str, Proof]:
        """Cut what a grudge says, in the name of an act; the proof of each machine that drops
        packets."""
        self._cuts[act] = kind
        return await self.cluster.offers(Partitionable).cut(
            grudge, reset=reset, name=act, patience_s=PATIENCE_S
        )

    async def heal_cuts(self, kind: str, of: str = "") -> dict[str, Proof]:
        """End the cut of an act, or, without a name, all cuts of a kind; no other's."""
        proofs: dict[str, Proof] = {}
        for name in [name for name, k in self._cuts.items() if k == kind and name == (of or name)]:
            del self._cuts[name]
            proofs |= await self.cluster.offers(Partitionable).heal(name=name)
        return proofs

    async def each(self, verb: Verb, nodes: Sequence[str]) -> Told:
        """Do something to all nodes in one instant, and to those of one container once;
        ``spread_ms`` is what that was in truth."""
        return await self.each_alone(verb, nodes, lambda node: self.beside(node)[0])

    async def each_alone(
        self, verb: Verb, nodes: Sequence[str], by: Callable[[str], str] = str
    ) -> Told:
        """The same to each node, whoever else is in its container."""
        loop = asyncio.get_running_loop()
        began: list[float] = []

        async def one(node: str) -> Proof:
            began.append(loop.time())
            return await verb(node)

        async with asyncio.TaskGroup() as group:
            tasks = {of: group.create_task(one(of)) for of in dict.fromkeys(map(by, nodes))}
        spread = {"spread_ms": round((max(began) - min(began)) * 1000, 3)} if len(began) > 1 else {}
        return {node: told(tasks[by(node)].result(), **spread) for node in nodes}


def recorded(args: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The cut of an act that is done as it was performed before; empty where it is not."""
    given: Mapping[str, Sequence[str]] = args.get("grudge") or {}
    return {to: frozenset(sources) for to, sources in given.items()}


def told(proof: Proof, **more: object) -> dict[str, object]:
    """A proof as the completion of a fault holds it."""
    return {"holds": proof.holds, **more, **proof.seen}
