"""Faults kill, stop, restart and pause: what can happen to a node's process.

The victim is chosen when the fault strikes, among the nodes that run and play one of the parts
asked for at that moment: master, slave, leader of the controllers, and so on.
`kill` ends it as SIGKILL does, `terminate`, of the fault stop, as SIGTERM does; both complete when
its process is gone and its port refuses, and `start` brings it back on its store. `restart` ends it
cleanly and starts it again at once, as an operator does who rolls out a setting. A node that does
not end when it is asked to is killed in the end; the completion says ``forced``. `pause` holds it
as SIGSTOP does: it keeps its connections and its beliefs, and does not know when it goes on that
time has passed.
Names follow Jepsen's packages: kill, start; pause, resume.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from harness.contracts.cluster import ClusterView, Part
from harness.contracts.environment import Capability
from nemeses.fault import Fault
from nemeses.nodes import (
    MAJORITY,
    MINORITY,
    ONE,
    Choice,
    NodeNemesis,
    restart,
    resume_paused,
    start_dead,
)

DOWN_NS = 1_500_000_000  # how long the victim stays dead
PAUSED_NS = 5_000_000_000  # beyond the 3 s after which a silent broker counts as dead
START = {"f": "start", "value": None}
# `stop` alone is the heal of Jepsen's standalone partitioner: a strike must not be called so.
TERMINATE = "terminate"
GROUPS = (ONE, ONE, ONE, MAJORITY)


def kill_fault(
    cluster: ClusterView,
    rng: Random,
    parts: Sequence[Part],
    *,
    groups: Sequence[str] = GROUPS,
    down_ns: int = DOWN_NS,
) -> Fault:
    """End processes, and start them again.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be killed; one named twice is chosen twice as often.
        groups: how many die at a time, in turn.
        down_ns: how long they stay dead.
    """
    return Fault(
        name="kill",
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        rounds=tuple(({"f": "kill", "value": group},) for group in groups),
        hold_ns=down_ns,
        end=START,
        nemesis=NodeNemesis(
            Choice(cluster, rng, parts),
            f="kill",
            strike=cluster.kill,
            end=partial(start_dead, cluster),
        ),
    )


def stop_fault(
    cluster: ClusterView, rng: Random, parts: Sequence[Part], *, down_ns: int = DOWN_NS
) -> Fault:
    """Stop processes cleanly, one at a time, and start them again; arguments as `kill_fault`."""
    return Fault(
        name="stop",
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        rounds=(({"f": TERMINATE, "value": ONE},),),
        hold_ns=down_ns,
        end=START,
        nemesis=NodeNemesis(
            Choice(cluster, rng, parts),
            f=TERMINATE,
            strike=cluster.stop,
            end=partial(start_dead, cluster),
        ),
    )


def restart_fault(cluster: ClusterView, rng: Random, parts: Sequence[Part]) -> Fault:
    """Stop processes cleanly and start them at once, one at a time; arguments as `kill_fault`."""
    return Fault(
        name="restart",
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        rounds=(({"f": "restart", "value": ONE},),),
        hold_ns=DOWN_NS,
        end=START,
        nemesis=NodeNemesis(
            Choice(cluster, rng, parts),
            f="restart",
            strike=partial(restart, cluster),
            end=partial(start_dead, cluster),
        ),
    )


def pause_fault(
    cluster: ClusterView, rng: Random, parts: Sequence[Part], *, paused_ns: int = PAUSED_NS
) -> Fault:
    """Hold processes, and let them go on; arguments as `kill_fault`."""
    return Fault(
        name="pause",
        needs=frozenset({Capability.PAUSE}),
        rounds=tuple(({"f": "pause", "value": group},) for group in (ONE, ONE, MINORITY)),
        hold_ns=paused_ns,
        end={"f": "resume", "value": None},
        nemesis=NodeNemesis(
            Choice(cluster, rng, parts, lambda node: not cluster.paused(node)),
            f="pause",
            strike=cluster.pause,
            end=partial(resume_paused, cluster),
        ),
    )
