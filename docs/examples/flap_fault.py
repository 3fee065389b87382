"""Example fault: the master's network flaps, half a second off and two seconds on.

Too short to be taken for dead, long enough to break what is on its way.
"""

from collections.abc import Iterator, Sequence

from maxq.harness.contracts.environment import Capability
from maxq.harness.schedule.format import Who
from maxq.histories.fault_facts import FaultFacts
from maxq.nemeses.grudges import isolated
from maxq.nemeses.kind import ActKind, Args, Drawing, Kind, Step
from maxq.nemeses.stage import Stage, Told, recorded, told

OFF_S, ON_S = 0.5, 2.0
FLAPS = 3  # in a round

# What readers of histories need: stored with each run that has such acts.
FACTS = FaultFacts(
    strikes="start-flap",
    effect="cut",
    heals=("stop-flap",),
    color="#9AD9D3",
)


async def off(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    """Cut the struck node from all others; the proof is what a probe saw. A run that is replayed as
    it was performed has the cut that it had."""
    grudge = recorded(args)
    for node in nodes:
        grudge |= isolated(node, list(stage.nodes))
    proofs = await stage.cut(act, "flap", grudge)
    return {node: told(proof) for node, proof in proofs.items()}


async def on(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    """End the cut of the strike that the schedule names, or of every flap; no other fault's."""
    healed = await stage.heal_cuts("flap", str(args.get("of") or ""))
    return {node: told(proof) for node, proof in healed.items()}


def rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """Three flaps of one master, and so on; who that is is found out when each strikes."""
    while True:
        flaps: list[Step] = []
        for _ in range(FLAPS):
            strike = len(flaps)
            flaps.append(Step("start-flap", ON_S, who=Who(part="master")))
            flaps.append(Step("stop-flap", OFF_S, of=strike))
        yield tuple(flaps)


NEEDS = frozenset({Capability.CUT})
FLAP = Kind(
    name="flap",
    about="the master's network goes for half a second, three times",
    acts=(
        ActKind(f="start-flap", needs=NEEDS, do=off),
        ActKind(f="stop-flap", needs=NEEDS, do=on, rejoins=True),
    ),
    rounds=rounds,
    facts=(FACTS,),
)
