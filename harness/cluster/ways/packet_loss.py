"""Packets that are lost at random between machines of nodes, with the proof of each loss.

A loss is proven by the counters of the machines that drop: of each direction in which it shall be,
packets were dropped while probes went that way. A way that is cut carries nothing that could be
lost: where every way of a direction is, the loss holds once its rules are in effect. A heal is
proven by the rules that are left, which are those of other nodes' losses, and by probes that meet
something on each way that nothing else impairs. Units: seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from maxq.harness.client.probes import PROBE_TIMEOUT_S, until
from maxq.harness.cluster.processes import Nodes
from maxq.harness.cluster.ways.ways import Losing, Way, Ways
from maxq.harness.contracts.cluster import Direction, Grudge, Proof
from maxq.harness.contracts.environment import Dropped
from maxq.harness.contracts.ways import Ports

TRIAL_TIMEOUT_S = 0.1  # of one probe: that its packets come is what counts, not the answer
LOSS_TIMEOUT_S, HEAL_TIMEOUT_S = 5.0, 10.0
Counted = Mapping[Way, Dropped]


class Losses:
    """What machines lose.

    Args:
        nodes: what runs on them.
        ways: between them; what is lost on which is remembered there.
    """

    def __init__(self, nodes: Nodes, ways: Ways) -> None:
        self._nodes = nodes
        self._ways = ways

    def losing(self, node: str) -> bool:
        return self._nodes.process(node) in self._ways.losing

    async def lose(
        self, node: str, *, percent: int, peers: Sequence[str], ways: Direction,
        ports: Ports = "all",
    ) -> Proof:  # fmt: skip
        node = self._nodes.process(node)
        others, lacking = self._ways.others(node, peers, ports)
        if not others:
            return Proof(False, {"reason": lacking})
        before = _all_ways(node, self._ways.losing.get(node))
        wanted = self._ways.losing[node] = Losing(others, ways, percent, ports)
        lossy = _all_ways(node, wanted)
        await self._install([*before, *lossy])
        free = await self._uncut(lossy)
        counted: Counted = {}

        async def dropping() -> bool:
            nonlocal counted
            await self._ways.probes(_grudge(free), TRIAL_TIMEOUT_S, ports)
            counted = await self._counted(lossy)
            each = [[way for way in every if way in free] for every in wanted.directions(node)]
            return all(
                any(way in counted and counted[way].packets for way in every)
                for every in each
                if every
            )

        holds = await until(dropping, LOSS_TIMEOUT_S) and counted.keys() == {*lossy}
        seen = {"percent": percent, "peers": list(others), "dropped": _seen(node, counted)}
        return Proof(holds, seen)

    async def stop_losing(self, node: str) -> Proof:
        node = self._nodes.process(node)
        losing = self._ways.losing.pop(node, None)
        ended = _all_ways(node, losing)
        ports = losing.ports if losing else "all"
        last = await self._counted(ended)
        await self._install(ended)
        free = _grudge(await self._sound(ended))
        slow_s = self._ways.slowness({*free, *set().union(*free.values())})
        seen: dict[str, Any] = {"dropped": _seen(node, last)}

        async def whole() -> bool:
            seen["met"] = await self._ways.probes(free, PROBE_TIMEOUT_S + slow_s, ports)
            return all("silent" not in ports.values() for ports in seen["met"].values())

        holds = await until(whole, HEAL_TIMEOUT_S)
        for to in dict.fromkeys(to for to, _ in ended):
            left = await self._nodes.machine(to).lost_packets()
            holds = holds and left.keys() == {loss.source for loss in self._ways.losses_at(to)}
        return Proof(holds, seen)

    async def _install(self, ways: Iterable[Way]) -> None:
        """Let the machines at the ends of these ways lose what all losses together say."""
        for to in dict.fromkeys(to for to, _ in ways):
            await self._nodes.machine(to).lose(self._ways.losses_at(to))

    async def _counted(self, ways: Sequence[Way]) -> Counted:
        """What the machines have counted on these ways since their rules were set."""
        packets = {
            to: await self._nodes.machine(to).lost_packets()
            for to in dict.fromkeys(to for to, _ in ways)
        }
        return {(to, source): packets[to][source] for to, source in ways if source in packets[to]}

    async def _uncut(self, ways: Sequence[Way]) -> list[Way]:
        cuts = {
            to: await self._nodes.machine(to).cut_packets()
            for to in dict.fromkeys(to for to, _ in ways)
        }
        return [(to, source) for to, source in ways if source not in cuts[to]]

    async def _sound(self, ways: Sequence[Way]) -> list[Way]:
        """Those of the ways that carry packets, and answers back, without cut or loss."""
        there, back = await self._uncut(ways), await self._uncut([(s, to) for to, s in ways])
        return [
            (to, source) for to, source in there
            if (source, to) in back and self._ways.lossless(to, [source])
        ]  # fmt: skip


def _all_ways(node: str, losing: Losing | None) -> list[Way]:
    return [] if losing is None else [way for every in losing.directions(node) for way in every]


def _grudge(ways: Iterable[Way]) -> Grudge:
    """Ways by their destinations."""
    found: dict[str, set[str]] = {}
    for to, source in ways:
        found.setdefault(to, set()).add(source)
    return {to: frozenset(sources) for to, sources in found.items()}


def _seen(node: str, counted: Counted) -> dict[str, Any]:
    """Packets that were dropped, and of how many, by direction."""
    found: dict[str, Any] = {}
    for (to, _), counts in counted.items():
        sums = found.setdefault("in" if to == node else "out", {"packets": 0, "of": 0})
        sums["packets"] += counts.packets
        sums["of"] += counts.of
    return found
