"""What all faults on nodes share: who is hit now, how everybody is brought back, what is told."""

from collections.abc import Sequence
from random import Random

from harness.client.outcome import Ok, Outcome
from harness.cluster import ClusterView, Part, Proof


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
    dead = [n.name for n in cluster.nodes if not cluster.running(n.name)]
    seen = {node: told(await cluster.start(node)) for node in dead}
    if not seen:
        return Ok({"nobody": {"holds": True, "reason": "every node was running"}})
    return Ok(seen)


def told(proof: Proof, **more: object) -> dict[str, object]:
    """A proof as the completion of a fault holds it."""
    return {"holds": proof.holds, **more, **proof.seen}
