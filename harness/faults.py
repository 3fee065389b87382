"""The faults that a run may ask for, by name, and whom each may strike."""

from collections.abc import Callable, Sequence
from random import Random

from harness.cluster import FaultPackage, Part
from harness.deployment import Deployment
from harness.environments.api import Capability, Environment, MissingCapability
from nemeses.fault import Fault, crowded, package
from nemeses.partition import partition_fault
from nemeses.power import power_fault
from nemeses.process import kill_fault, pause_fault, restart_fault, stop_fault
from nemeses.readdress import readdress_fault

FAULTS = ("kill", "stop", "restart", "pause", "power", "partition", "readdress", "none")
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


def fault_packages(
    names: Sequence[str], cluster: Deployment, environment: Environment, seed: int
) -> list[FaultPackage]:
    """Make the asked-for faults.

    Raises:
        MissingCapability: the environment cannot do one of them.
    """

    def rng(name: str) -> Random:
        return Random(f"{seed}/nemesis/{name}")

    moved = MOVED + MOVED_BY_NAME if cluster.settings.by_name else MOVED
    # In the order of the final heals: first whoever runs is let go and hears the others again.
    makers: dict[str, Callable[[], Fault]] = {
        "partition": lambda: partition_fault(cluster, rng("partition")),
        "pause": lambda: pause_fault(cluster, rng("pause"), PAUSED),
        "readdress": lambda: readdress_fault(cluster, rng("readdress"), moved),
        "kill": lambda: kill_fault(cluster, rng("kill"), KILLED),
        "stop": lambda: stop_fault(cluster, rng("stop"), KILLED),
        "restart": lambda: restart_fault(cluster, rng("restart"), KILLED),
        "power": lambda: power_fault(cluster, rng("power"), STRUCK),
    }
    faults = [make() for name, make in makers.items() if name in names]
    quiet_ns = crowded(len(faults))
    for fault in faults:
        missing: set[Capability] = set(fault.needs - environment.capabilities)
        if missing:
            lacks = ", ".join(sorted(c.value for c in missing))
            known = environment.lacking()
            why = "; ".join(known[c] for c in sorted(missing, key=str) if c in known)
            raise MissingCapability(
                f"{environment.name} cannot do {lacks}, which --nemesis {fault.name} needs"
                + (f": {why}" if why else "")
            )
    return [package(fault, quiet_ns=quiet_ns) for fault in faults]
