"""What all faults that take nodes away share: who is hit now, what is told, how all come back."""

from collections.abc import Awaitable, Callable, Sequence
from random import Random

from harness.client.outcome import Fail, Ok, Outcome
from harness.cluster import ClusterView, Part, Proof
from histories.op import Op

ONE, TOGETHER = "one", "together"


class NodeNemesis:
    """Strikes nodes that run, and brings back all that are down.

    The operation `f` strikes one node that plays one of the parts at that moment, chosen at random,
    or, where its value is `together`, every broker. `start` starts all that are down.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be struck; one named twice is chosen twice as often.
        f: the name of the strike.
        strike: takes a node's name; gives the proof.
    """

    def __init__(
        self,
        cluster: ClusterView,
        rng: Random,
        parts: Sequence[Part],
        *,
        f: str,
        strike: Callable[[str], Awaitable[Proof]],
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._parts = tuple(parts)
        self._f = f
        self._strike = strike

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == self._f:
            return await self._hit(together=op.value == TOGETHER)
        return await start_dead(self._cluster)

    async def _hit(self, *, together: bool) -> Outcome:
        asked: Sequence[Part] = ("broker",) if together else self._parts
        chosen = await choose(self._cluster, self._rng, asked)
        if chosen is None:
            return Fail([f"nobody-to-{self._f}", *dict.fromkeys(asked)])
        part, running = chosen
        victims = running if together else [self._rng.choice(running)]
        return Ok({v: told(await self._strike(v), role=part) for v in victims})

    async def close(self) -> None:
        """Nothing is held."""


async def choose(
    cluster: ClusterView, rng: Random, parts: Sequence[Part]
) -> tuple[Part, Sequence[str]] | None:
    """Choose a part and who plays it now; parts that nobody plays are passed over."""
    left = list(parts)
    while left:
        part = rng.choice(left)
        running = await cluster.playing(part)
        if running:
            return part, running
        left = [p for p in left if p != part]
    return None


async def start_dead(cluster: ClusterView) -> Outcome:
    """Start every node that is down, whatever took it down."""
    dead = [n.name for n in cluster.nodes if not n.spare and not cluster.running(n.name)]
    seen = {node: told(await cluster.start(node)) for node in dead}
    if not seen:
        return Ok({"nobody": {"holds": True, "reason": "every node was running"}})
    return Ok(seen)


def told(proof: Proof, **more: object) -> dict[str, object]:
    """A proof as the completion of a fault holds it."""
    return {"holds": proof.holds, **more, **proof.seen}
