"""Fault power: a machine loses its power, and with it what its disk had not synced.

As `kill`, but harder: the page cache does not survive. `power-loss` strikes one node that plays one
of the parts asked for at that moment, or, `together`, every broker: one rack, one power supply. It
completes when process and port are gone and the disk has lost what it had to; `start` brings
everything back. What is promised then needs brokers that sync before they answer
(flushDiskType=SYNC_FLUSH): ASYNC_FLUSH promises nothing on a loss of power.
"""

from collections.abc import Sequence
from random import Random

from harness.client.outcome import Fail, Ok, Outcome
from harness.cluster import ClusterView, FaultPackage, Part, Proof
from harness.environments.api import Capability
from harness.generators import concat, cycle, once, sleep
from histories.op import Op

QUIET_NS = 2_000_000_000  # before each loss
DOWN_NS = 1_500_000_000  # how long the victims stay dark
ONE, TOGETHER = "one", "together"


class PowerNemesis:
    """Performs `power-loss` and `start`."""

    def __init__(self, cluster: ClusterView, rng: Random, parts: Sequence[Part]) -> None:
        self._cluster = cluster
        self._rng = rng
        self._parts = tuple(parts)

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == "power-loss":
            return await self._lose(together=op.value == TOGETHER)
        return await self._start()

    async def _lose(self, *, together: bool) -> Outcome:
        asked: list[Part] = ["broker"] if together else list(self._parts)
        parts = list(asked)
        while parts:
            part = self._rng.choice(parts)
            running = await self._cluster.playing(part)
            if running:
                victims = running if together else [self._rng.choice(running)]
                seen = {v: _told(await self._cluster.power_loss(v), role=part) for v in victims}
                return Ok(seen)
            parts = [p for p in parts if p != part]
        return Fail(["nobody-to-strike", *dict.fromkeys(asked)])

    async def _start(self) -> Outcome:
        dead = [n.name for n in self._cluster.nodes if not self._cluster.running(n.name)]
        seen = {node: _told(await self._cluster.start(node)) for node in dead}
        if not seen:
            return Ok({"nobody": {"holds": True, "reason": "every node was running"}})
        return Ok(seen)

    async def close(self) -> None:
        """Nothing is held."""


def _told(proof: Proof, **more: object) -> dict[str, object]:
    return {"holds": proof.holds, **more, **proof.seen}


def power_package(cluster: ClusterView, rng: Random, parts: Sequence[Part]) -> FaultPackage:
    """Take the power from one node, start it again, and so on; each third time from all brokers.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be struck; one named twice is chosen twice as often.
    """
    end = {"f": "start", "value": None}

    def loss(of: str) -> tuple[object, ...]:
        begin = {"f": "power-loss", "value": of}
        return (sleep(QUIET_NS), once(begin), sleep(DOWN_NS), once(end))

    return FaultPackage(
        name="power",
        needs=frozenset({Capability.POWER_LOSS, Capability.RESTART}),
        generator=cycle(concat(*loss(ONE), *loss(ONE), *loss(TOGETHER))),  # type: ignore[arg-type]
        final_generator=once(end),
        nemesis=PowerNemesis(cluster, rng, parts),
        color="#B7A6D9",
        fs=frozenset({"power-loss", "start"}),
    )
