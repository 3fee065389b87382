"""Fault kill: ends a node's process as SIGKILL does, and starts it again on its store.

The victim is chosen when the fault strikes, among the nodes that run and play one of the parts
asked for at that moment: master, slave, leader of the controllers, and so on.
`kill` completes when its process is gone and its port refuses; `start` when process and port are
back. Names follow Jepsen's package: kill, start.
"""

from collections.abc import Sequence
from random import Random

from harness.cluster import ClusterView, FaultPackage, Part
from harness.environments.api import Capability
from harness.generators import concat, cycle, once, sleep
from nemeses.nodes import ONE, NodeNemesis

QUIET_NS = 2_000_000_000  # before each kill
DOWN_NS = 1_500_000_000  # how long the victim stays dead


def kill_package(cluster: ClusterView, rng: Random, parts: Sequence[Part]) -> FaultPackage:
    """Kill one node that plays a random part, wait, start it again, and so on.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be killed; one named twice is chosen twice as often.
    """
    begin = {"f": "kill", "value": ONE}
    end = {"f": "start", "value": None}
    return FaultPackage(
        name="kill",
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        generator=cycle(concat(sleep(QUIET_NS), once(begin), sleep(DOWN_NS), once(end))),
        final_generator=once(end),
        nemesis=NodeNemesis(cluster, rng, parts, f="kill", strike=cluster.kill),
        color="#E9A4A0",
        fs=frozenset({"kill", "start"}),
    )
