"""Fault readdress: a node's machine gets another address of its block.

`change-ip` strikes one node that plays one of the parts asked for: `live`, under the running
process, which nobody tells; or with a `restart`, stopped before and started after. It completes
when the node answers at its new address and nobody at the old one. `restore-ip` gives all that
moved their first address again. A broker must keep its id, and everybody must find it.

The value of a completion maps node to ``{"from": …, "to": …}`` and the proof.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from harness.contracts.cluster import ClusterView, Part
from harness.contracts.environment import Capability
from harness.contracts.outcome import Ok, Outcome
from histories.op import Op
from nemeses.bag import Bag
from nemeses.fault import Ask, Fault
from nemeses.nodes import ONE, Choice, each, told

AWAY_NS = 5_000_000_000  # between two moves
LIVE, RESTART = "live", "restart"


class Readdress:
    """Moves nodes, and brings them home.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be moved; one named twice is chosen twice as often.
    """

    def __init__(self, cluster: ClusterView, rng: Random, parts: Sequence[Part]) -> None:
        self._cluster = cluster
        self._rng = rng
        # Rather not one that is paused: it would not notice.
        self._choice = Choice(cluster, rng, parts, lambda node: not cluster.paused(node))
        self._ways = Bag(rng, (LIVE, RESTART))
        self._moved: dict[str, None] = {}

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        return await (self._home() if op.f == "restore-ip" else self._away(op.value))

    async def _away(self, way: object) -> Outcome:
        part, node = await self._victim()
        self._moved[node] = None
        proof = await self._cluster.change_ip(node, restart=way == RESTART)
        return Ok({node: told(proof, role=part)})

    async def _victim(self) -> tuple[Part, str]:
        chosen = await self._choice.victims(ONE)
        if chosen is not None:
            return chosen[0], chosen[1][0]
        # All are down or paused. A machine can move all the same, and its node wakes up there.
        brokers = [n.name for n in self._cluster.nodes if n.broker_set and not n.spare]
        return "broker", self._rng.choice(brokers)

    async def _home(self) -> Outcome:
        restart = self._ways.next() == RESTART
        moved, self._moved = self._moved, {}
        go = partial(self._cluster.restore_ip, restart=restart)
        return await each(list(moved), go, "no node had moved")

    async def close(self) -> None:
        """Nothing is held."""


def readdress_fault(
    cluster: ClusterView, rng: Random, parts: Sequence[Part], *, away_ns: int = AWAY_NS
) -> Fault:
    """Move one node and bring it home; then two, one after the other; half of the moves live.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be moved; one named twice is chosen twice as often.
        away_ns: between two moves.
    """

    def away(way: str) -> Ask:
        return {"f": "change-ip", "value": way}

    return Fault(
        name="readdress",
        needs=frozenset({Capability.READDRESS, Capability.RESTART}),
        rounds=((away(LIVE),), (away(RESTART), away(LIVE)), (away(RESTART),)),
        hold_ns=away_ns,
        end={"f": "restore-ip", "value": None},
        nemesis=Readdress(cluster, rng, parts),
    )
