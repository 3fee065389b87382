"""Fault kill: ends a node's process as SIGKILL does, and starts it again on its store.

The victim is chosen when the fault strikes, among the nodes that run and play one of the parts
asked for at that moment: master, slave, leader of the controllers, and so on.
`kill` completes when its process is gone and its port refuses; `start` when process and port are
back. Names follow Jepsen's package: kill, start.
"""

from collections.abc import Sequence
from random import Random

from harness.client.outcome import Fail, Ok, Outcome
from harness.cluster import ClusterView, FaultPackage, Part
from harness.environments.api import Capability
from harness.generators import concat, cycle, once, sleep
from histories.op import Op
from nemeses.nodes import choose, start_dead, told

QUIET_NS = 2_000_000_000  # before each kill
DOWN_NS = 1_500_000_000  # how long the victim stays dead


class KillNemesis:
    """Performs `kill` and `start`."""

    def __init__(self, cluster: ClusterView, rng: Random, parts: Sequence[Part]) -> None:
        self._cluster = cluster
        self._rng = rng
        self._parts = tuple(parts)

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == "kill":
            return await self._kill()
        return await start_dead(self._cluster)

    async def _kill(self) -> Outcome:
        chosen = await choose(self._cluster, self._rng, self._parts)
        if chosen is None:
            return Fail(["nobody-to-kill", *dict.fromkeys(self._parts)])
        part, running = chosen
        victim = self._rng.choice(running)
        return Ok({victim: told(await self._cluster.kill(victim), role=part)})

    async def close(self) -> None:
        """Nothing is held."""


def kill_package(cluster: ClusterView, rng: Random, parts: Sequence[Part]) -> FaultPackage:
    """Kill one node that plays a random part, wait, start it again, and so on.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be killed; one named twice is chosen twice as often.
    """
    begin = {"f": "kill", "value": "one"}
    end = {"f": "start", "value": None}
    return FaultPackage(
        name="kill",
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        generator=cycle(concat(sleep(QUIET_NS), once(begin), sleep(DOWN_NS), once(end))),
        final_generator=once(end),
        nemesis=KillNemesis(cluster, rng, parts),
        color="#E9A4A0",
        fs=frozenset({"kill", "start"}),
    )
