"""Fault power: a machine loses its power, and with it what its disk had not synced.

As `kill`, but harder: the page cache does not survive. `power-loss` strikes one node that plays one
of the parts asked for at that moment, or, `together`, every broker: one rack, one power supply. It
completes when process and port are gone and the disk has lost what it had to; `start` brings
everything back. What is promised then needs brokers that sync before they answer
(flushDiskType=SYNC_FLUSH): ASYNC_FLUSH promises nothing on a loss of power.
"""

from collections.abc import Sequence
from random import Random

from harness.cluster import ClusterView, FaultPackage, Part
from harness.environments.api import Capability
from harness.generators import concat, cycle, once, sleep
from nemeses.nodes import ONE, TOGETHER, NodeNemesis

QUIET_NS = 2_000_000_000  # before each loss
DOWN_NS = 1_500_000_000  # how long the victims stay dark


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
        nemesis=NodeNemesis(cluster, rng, parts, f="power-loss", strike=cluster.power_loss),
        color="#B7A6D9",
        fs=frozenset({"power-loss", "start"}),
    )
