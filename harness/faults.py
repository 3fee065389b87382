"""The faults that a run may ask for, by name."""

from collections.abc import Sequence
from random import Random

from harness.cluster import ClusterView, FaultPackage, Part
from harness.environments.api import Capability, Environment, MissingCapability
from nemeses.power import power_package
from nemeses.process import kill_package

FAULTS = ("kill", "power", "none")
# What `kill` may hit; masters most of all, since it is their death that can lose messages.
KILLED: tuple[Part, ...] = (
    *("master", "master", "master", "slave", "slave"),
    *("controller-leader", "namesrv"),
)
# What `power` may strike.
STRUCK: tuple[Part, ...] = ("master", "master", "slave", "controller-leader", "controller")


def fault_packages(
    names: Sequence[str], cluster: ClusterView, environment: Environment, seed: int
) -> list[FaultPackage]:
    """Make the asked-for faults.

    Raises:
        MissingCapability: the environment cannot do one of them.
    """
    packages = []
    for name in names:
        if name == "kill":
            packages.append(kill_package(cluster, Random(f"{seed}/nemesis/kill"), KILLED))
        if name == "power":
            packages.append(power_package(cluster, Random(f"{seed}/nemesis/power"), STRUCK))
    for package in packages:
        missing: set[Capability] = set(package.needs - environment.capabilities)
        if missing:
            lacks = ", ".join(sorted(c.value for c in missing))
            raise MissingCapability(f"{environment.name} cannot do {lacks}, which "
                                    f"--nemesis {package.name} needs")  # fmt: skip
    return packages
