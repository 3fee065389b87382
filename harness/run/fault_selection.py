"""The faults that a run may ask for, by name, and whom each may strike."""

from collections.abc import Callable, Sequence
from random import Random

from harness.cluster.deployment import Deployment
from harness.contracts.cluster import ClusterView, FaultPackage, Part
from harness.contracts.environment import Capability, Environment, MissingCapability
from harness.generators import EMPTY
from harness.schedule.format import Schedule, ScheduleError
from harness.schedule.options import THEN
from histories.fault_facts import FaultFacts
from histories.fault_facts import complaint as complaint_of
from nemeses.combine import ordered
from nemeses.fault import Fault, crowded, package
from nemeses.partition import ANY, partition_fault
from nemeses.power import power_fault
from nemeses.process import kill_fault, pause_fault, restart_fault, stop_fault
from nemeses.readdress import readdress_fault
from nemeses.scripted import NEEDS, Scripted, complaint

# What `kill`, `stop` and `restart` may hit; masters most of all, since it is their death that can
# lose messages.
KILLED: tuple[Part, ...] = (
    *("master", "master", "master", "slave", "sync-state-set-slave"),
    *("controller-leader", "namesrv"),
)
PAUSED: tuple[Part, ...] = ("master", "master", "sync-state-set-slave", "controller-leader")
# What `power` may strike.
STRUCK: tuple[Part, ...] = ("master", "master", "slave", "controller-leader", "controller")
# What `readdress` may move, and what else where nodes know each other by name.
MOVED: tuple[Part, ...] = ("master", "master", "slave", "sync-state-set-slave")
MOVED_BY_NAME: tuple[Part, ...] = ("controller-leader", "controller", "namesrv")


Maker = Callable[[Deployment, Random], Fault]


def _readdress(cluster: Deployment, rng: Random) -> Fault:
    moved = MOVED + MOVED_BY_NAME if cluster.settings.by_name else MOVED
    return readdress_fault(cluster, rng, moved)


# Only where they are asked for by name: one cuts clients off from masters as well, the other cuts
# without regard to majorities.
PARTITION_CLIENTS, PARTITION_ANY = "partition-clients", "partition-any"
NOT_IN_ALL = frozenset((PARTITION_CLIENTS, PARTITION_ANY))
# In the order of the final heals: first whoever runs is let go and hears the others again.
MAKERS: dict[str, Maker] = {
    "partition": partition_fault,
    PARTITION_CLIENTS: lambda cluster, rng: partition_fault(cluster, rng, clients=True),
    PARTITION_ANY: lambda cluster, rng: partition_fault(cluster, rng, keeps=ANY),
    "pause": lambda cluster, rng: pause_fault(cluster, rng, PAUSED),
    "readdress": _readdress,
    "kill": lambda cluster, rng: kill_fault(cluster, rng, KILLED),
    "stop": lambda cluster, rng: stop_fault(cluster, rng, KILLED),
    "restart": lambda cluster, rng: restart_fault(cluster, rng, KILLED),
    "power": lambda cluster, rng: power_fault(cluster, rng, STRUCK),
}
NO_FAULT = "none"


def fault_names() -> tuple[str, ...]:
    """What a run may ask for."""
    return (*sorted(MAKERS), NO_FAULT)


def fault_packages(
    names: Sequence[str], cluster: Deployment, environment: Environment, seed: int
) -> list[FaultPackage]:
    """Make the asked-for faults.

    Raises:
        MissingCapability: the environment cannot do one of them.
        ValueError: what one says of its kind cannot be declared.
    """
    quiet_ns = crowded(len(names)) * cluster.patience
    packages = [_package(name, cluster, seed, quiet_ns) for name in in_order(names)]
    for fault in packages:
        _possible(environment, fault.needs, f"--nemesis {fault.name}")
    facts_of(packages)
    return packages


def needs_of(names: Sequence[str], cluster: Deployment) -> frozenset[Capability]:
    """What an environment must be able to do for these faults."""
    packages = [_package(name, cluster, seed=0, quiet_ns=0) for name in in_order(names)]
    return frozenset[Capability]().union(*(fault.needs for fault in packages))


def _possible(environment: Environment, needs: frozenset[Capability], what: str) -> None:
    missing: set[Capability] = set(needs - environment.capabilities)
    if missing:
        lacks = ", ".join(sorted(c.value for c in missing))
        known = environment.lacking()
        why = "; ".join(str(known[c]) for c in sorted(missing, key=str) if c in known)
        raise MissingCapability(
            f"{environment.name} cannot do {lacks}, which {what} needs"
            + (f": {why}" if why else "")
        )


def scripted_package(
    script: Schedule, cluster: ClusterView, environment: Environment
) -> FaultPackage:
    """The nemesis of a schedule.

    Raises:
        MissingCapability: the environment cannot do one of its acts, or has not whom it concerns.
        ScheduleError: nobody could do one of its acts.
    """
    names = {node.name for node in cluster.nodes}
    for act in script.acts:
        wrong = complaint(act, names)
        if wrong:
            raise ScheduleError(f"{act.id}: {wrong}")
        _possible(environment, NEEDS[act.f], f"act {act.id} ({act.f})")
        strange = [node for node in act.who.nodes if node not in names]
        if strange:
            raise MissingCapability(f"act {act.id} ({act.f}) concerns {strange[0]}, which is not")
    return FaultPackage(
        name="schedule",
        needs=frozenset(),
        generator=EMPTY,
        final_generator=EMPTY,
        nemesis=Scripted(cluster, f"{script.header.seed}/act"),
        fs=frozenset(NEEDS),
    )


def facts_of(packages: Sequence[FaultPackage]) -> tuple[FaultFacts, ...]:
    """What a run must declare of its faults: the facts of kinds that are not built in.

    Raises:
        ValueError: nobody may declare them, or two tell different things of one act.
    """
    found: dict[str, FaultFacts] = {}
    for facts in (facts for fault in packages for facts in fault.facts):
        wrong = complaint_of(facts)
        if not wrong and found.setdefault(facts.strikes, facts) != facts:
            wrong = "it is declared twice"
        if wrong:
            raise ValueError(f"facts of fault {facts.strikes!r}: {wrong}")
    return tuple(found.values())


def _package(name: str, cluster: Deployment, seed: int, quiet_ns: int) -> FaultPackage:
    rng = Random(f"{seed}/nemesis/{name}")
    first, _, second = name.partition(THEN)
    fault = MAKERS[first](cluster, rng)
    if not second:
        return package(fault, quiet_ns=quiet_ns)
    return ordered(fault, MAKERS[second](cluster, rng), rng, quiet_ns=quiet_ns)


def in_order(names: Sequence[str]) -> list[str]:
    """Faults in the order of their final heals."""
    makers = list(MAKERS)
    asked = [name for name in dict.fromkeys(names) if name != NO_FAULT]
    return sorted(asked, key=lambda name: makers.index(name.partition(THEN)[0]))
