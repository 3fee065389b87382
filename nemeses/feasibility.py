"""Whether an environment and a cluster allow what a schedule asks for, before it begins."""

from collections.abc import Collection

from harness.contracts.cluster import Cluster
from harness.contracts.environment import Capability, Environment, MissingCapability
from harness.schedule.format import Schedule, ScheduleError
from nemeses.catalogue import acts, complaint


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
        possible(environment, known[act.f].needs, f"act {act.id} ({act.f})")
        strange = [node for node in act.who.nodes if node not in names]
        if strange:
            raise MissingCapability(f"act {act.id} ({act.f}) concerns {strange[0]}, which is not")


def possible(environment: Environment, needs: Collection[Capability], what: str) -> None:
    """Check what something needs.

    Raises:
        MissingCapability: the environment cannot do it; says why.
    """
    missing = set(needs) - environment.capabilities
    if missing:
        lacks = ", ".join(sorted(c.value for c in missing))
        known = environment.lacking()
        why = "; ".join(str(known[c]) for c in sorted(missing, key=str) if c in known)
        raise MissingCapability(
            f"{environment.name} cannot do {lacks}, which {what} needs"
            + (f": {why}" if why else "")
        )
