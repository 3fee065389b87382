"""Whether an environment and a cluster allow what a run asks for, before it begins; if not, what
takes its place, where anything can.
"""

from collections.abc import Collection, Iterable, Mapping

from maxq.harness.contracts.cluster import Cluster
from maxq.harness.contracts.environment import (
    Capability,
    Environment,
    Lack,
    MissingCapability,
)
from maxq.harness.schedule.format import Schedule, ScheduleError
from maxq.histories.aliases import THEN
from maxq.nemeses.catalogue import NO_FAULT, acts, complaint, kinds_of

# Why an environment of a kind can do no part of what another capability can.
WHY = {
    Capability.DRIFT: "drift is for the simulator, on real machines clocks are off by steps",
    Capability.BANDWIDTH: "kb_s is for real machines, the simulated network has no capacity",
}


def check(script: Schedule, cluster: Cluster, environment: Environment) -> None:
    """Check every act.

    Raises:
        MissingCapability: the environment cannot do one of them, or has not the node that it
            concerns.
        ScheduleError: no environment could.
    """
    names = {node.name for node in cluster.nodes}
    known = acts()
    for act in script.acts:
        wrong = complaint(act, names)
        if wrong:
            raise ScheduleError(f"{act.id}: {wrong}")
        kind = known[act.f]
        possible(environment, kind.needs | kind.also(act.args), f"act {act.id} ({act.f})")
        strange = [node for node in act.who.nodes if node not in names]
        if strange:
            raise MissingCapability(f"act {act.id} ({act.f}) concerns {strange[0]}, which is not")


def replaceable(names: Iterable[str]) -> bool:
    """Whether any of these faults has something that can take its place."""
    asked = (kind for name in names if name != NO_FAULT for kind in kinds_of(name))
    return any(kind.stand_in for kind in asked)


def stand_ins(names: Iterable[str], can: Collection[Capability]) -> dict[str, str]:
    """Of faults those that cannot be done with these capabilities, each with what takes its place.
    One that nothing can take the place of is left out: a run that asks for it is refused."""
    every = {name: THEN.join(_done(each, can) for each in name.split(THEN)) for name in names}
    return {name: instead for name, instead in every.items() if instead != name}


def _done(name: str, can: Collection[Capability]) -> str:
    """The fault, or the first in the row of its stand-ins that can be done."""
    tried = name
    while tried and tried != NO_FAULT:
        [kind] = kinds_of(tried)
        if kind.needs <= set(can):
            return tried
        tried = kind.stand_in
    return name


def possible(environment: Environment, needs: Collection[Capability], what: str) -> None:
    """Check what something needs.

    Raises:
        MissingCapability: the environment cannot do it; says why.
    """
    missing = set(needs) - environment.capabilities
    if missing:
        lacks = ", ".join(sorted(c.value for c in missing))
        known = environment.lacking()
        why = "; ".join(_why(c, known) for c in sorted(missing, key=str) if c in known or c in WHY)
        raise MissingCapability(
            f"{environment.name} cannot do {lacks}, which {what} needs"
            + (f": {why}" if why else "")
        )


def _why(missing: Capability, known: Mapping[Capability, Lack]) -> str:
    return str(known[missing]) if missing in known else WHY[missing]
