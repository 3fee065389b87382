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
from harness.cluster import ClusterView, FaultPackage, Part
from harness.environments.api import Capability
from harness.generators import concat, cycle, once, sleep
from histories.op import Op
from nemeses.nodes import choose, start_dead, told

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
        return await start_dead(self._cluster)

    async def _lose(self, *, together: bool) -> Outcome:
        asked: Sequence[Part] = ("broker",) if together else self._parts
        chosen = await choose(self._cluster, self._rng, asked)
        if chosen is None:
            return Fail(["nobody-to-strike", *dict.fromkeys(asked)])
        part, running = chosen
        victims = running if together else [self._rng.choice(running)]
        return Ok({v: told(await self._cluster.power_loss(v), role=part) for v in victims})

    async def close(self) -> None:
        """Nothing is held."""


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
