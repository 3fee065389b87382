"""Example fault: the master's network flaps, half a second off and two seconds on.

Too short to be taken for dead, long enough to break what is on its way.
"""

from random import Random

from harness.contracts.cluster import ClusterView
from harness.contracts.environment import Capability
from harness.contracts.outcome import Fail, Ok, Outcome
from histories.fault_facts import FaultFacts
from histories.op import Op
from nemeses.fault import Fault
from nemeses.grudges import isolated
from nemeses.nodes import told

OFF_NS = 500_000_000
FLAP = FaultFacts(
    strikes="start-flap",
    effect="cut",
    heals=("stop-flap",),
    color="#9AD9D3",
)


class Flap:
    """Performs the operations of the fault; a completion says what a probe saw."""

    def __init__(self, cluster: ClusterView, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f in FLAP.heals:
            healed = await self._cluster.heal()
            seen = {node: told(proof) for node, proof in healed.items()}
            return Ok(seen or {"nobody": {"holds": True, "reason": "nothing was cut"}})
        # In the middle of an election nobody is master: then some broker, since a fault that
        # strikes nobody makes the whole verdict unknown.
        found = await self._cluster.playing("master") or await self._cluster.playing("broker")
        if not found:
            return Fail(["nobody-to-flap", "broker"])
        everybody = [n.name for n in self._cluster.nodes if not n.spare]
        proofs = await self._cluster.cut(isolated(self._rng.choice(list(found)), everybody))
        return Ok({node: told(proof, role="master") for node, proof in proofs.items()})

    async def close(self) -> None:
        """Nothing is held."""


def flap_fault(cluster: ClusterView, rng: Random) -> Fault:
    """Make the fault: what it needs, its beginning and its end, who does it."""
    return Fault(
        name="flap",
        needs=frozenset({Capability.CUT}),
        rounds=(({"f": FLAP.strikes, "value": None},),),
        hold_ns=OFF_NS,
        end={"f": FLAP.heals[0], "value": None},
        nemesis=Flap(cluster, rng),
        facts=(FLAP,),
    )
