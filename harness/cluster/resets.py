"""Connections of machines that are reset while everything else is as it was, with the proof.

The connections that are established are listed first, at both ends, and ended at both, so that a
cut between the machines changes nothing. It is proven when none of those is left; new ones may be
there already. A kernel that cannot end connections is helped by its packet rules: for a moment
every packet of the other machine, on connections to the ports that are meant, is answered by a
reset, and then what is sent to it. A connection on which nobody says anything then stays, and that
is no proof. Units: seconds.
"""

from collections.abc import Mapping, Sequence

from maxq.harness.client.probes import until
from maxq.harness.cluster.network import Links
from maxq.harness.cluster.processes import Nodes
from maxq.harness.cluster.ways.ways import Ways
from maxq.harness.contracts.cluster import Proof
from maxq.harness.contracts.ways import Ports
from maxq.reference.rpc import split_address

GONE_S = 1.0  # that a connection takes to go whose kernel can end it
BY_PACKETS_S = 5.0  # until something is sent on each, as heartbeats are each second
CUT = "reset-connections"  # what the cut of that moment is called
Known = dict[str, frozenset[tuple[str, str]]]  # by the other machine: its ends, here and there


class Resets:
    """What is reset.

    Args:
        nodes: what runs on the machines.
        links: between them; cuts.
        ways: between them; ports.
    """

    def __init__(self, nodes: Nodes, links: Links, ways: Ways) -> None:
        self._nodes = nodes
        self._links = links
        self._ways = ways

    async def reset_connections(
        self, node: str, peers: Sequence[str], ports: Ports = "all"
    ) -> Mapping[str, Proof]:
        node = self._nodes.process(node)
        others, _ = self._ways.others(node, peers, ports)
        of = {peer: self._ways.ports(ports, node, peer) or () for peer in others}
        before = {
            peer: ends for peer in others if (ends := await self._between(node, peer, of[peer]))
        }
        here = self._nodes.machine(node)
        for peer in before:
            there = self._nodes.machine(peer)
            await here.reset_connections(there.block, of[peer])
            await there.reset_connections(here.block, of[peer])
        left = await self._left(node, before, GONE_S)
        if left:
            await self._links.cut({node: frozenset(left)}, reset=True, name=CUT, ports=ports)
            left = await self._left(node, before, BY_PACKETS_S)
            await self._links.heal(name=CUT)
        return self._nodes.of_all(_proofs(node, before, left))

    async def _between(
        self, node: str, peer: str, ports: tuple[int, ...] = ()
    ) -> frozenset[tuple[str, str]]:
        """The connections of two machines that either has, from the first one's side; with such a
        port at either end, where any are named."""
        one, other = self._nodes.machine(node), self._nodes.machine(peer)
        there = await other.connections(one.block)
        both = await one.connections(other.block) | {(b, a) for a, b in there}
        return frozenset(ends for ends in both if not ports or _port(*ends) & {*ports})

    async def _left(self, node: str, before: Known, patience_s: float) -> Mapping[str, int]:
        """How many connections of before are there still, by the other machine."""
        left: dict[str, int] = {}

        async def gone() -> bool:
            left.clear()
            for peer, known in before.items():
                still = known & await self._between(node, peer)
                if still:
                    left[peer] = len(still)
            return not left

        await until(gone, patience_s)
        return left


def _proofs(node: str, before: Known, left: Mapping[str, int]) -> dict[str, Proof]:
    """What each machine lost; empty where there was nothing to lose."""
    if not before:
        return {}
    counts = {peer: len(ends) for peer, ends in sorted(before.items())}
    mine = Proof(not left, {"from": counts, "left": dict(left)})
    others = {
        peer: Proof(peer not in left, {"from": {node: n}, "left": _only(node, left.get(peer, 0))})
        for peer, n in counts.items()
    }
    return {node: mine, **others}


def _port(*ends: str) -> set[int]:
    return {split_address(end)[1] for end in ends}


def _only(node: str, left: int) -> dict[str, int]:
    return {node: left} if left else {}
