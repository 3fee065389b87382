"""Fault power: a machine loses its power, and with it what its disk had not synced.

As `kill`, but harder: the page cache does not survive. `power-loss` strikes one node that plays one
of the parts asked for at that moment, or `all` brokers: one rack, one power supply. It completes
when process and port are gone and the disk has lost what it had to; `start` brings everything back.
What is promised then needs brokers that sync before they answer (flushDiskType=SYNC_FLUSH):
ASYNC_FLUSH promises nothing on a loss of power.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from harness.contracts.cluster import ClusterView, Part
from harness.contracts.environment import Capability
from nemeses.fault import Fault
from nemeses.nodes import ALL, ONE, Choice, NodeNemesis, start_dead
from nemeses.process import START

DOWN_NS = 1_500_000_000  # how long the victims stay dark


def power_fault(
    cluster: ClusterView, rng: Random, parts: Sequence[Part], *, down_ns: int = DOWN_NS
) -> Fault:
    """Take the power from one node, and each third time from all brokers; start them again.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be struck; one named twice is chosen twice as often.
        down_ns: how long they stay dark.
    """
    return Fault(
        name="power",
        needs=frozenset({Capability.POWER_LOSS, Capability.RESTART}),
        rounds=tuple(({"f": "power-loss", "value": group},) for group in (ONE, ONE, ALL)),
        hold_ns=down_ns,
        end=START,
        nemesis=NodeNemesis(
            Choice(cluster, rng, parts),
            f="power-loss",
            strike=cluster.power_loss,
            end=partial(start_dead, cluster),
            together=True,  # one power supply
        ),
    )
