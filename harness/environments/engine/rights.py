"""What a container may do and use: no more than the faults of its run need. Pure.

A container has no rights (capabilities) but those named here, and can gain none, as
``no-new-privileges`` says; its root is read-only, its memory and processes are bounded. It begins
with one that takes away the route out that some engines add, and then keeps what its run needs.
Nodes have no right at all (`maxq.harness.environments.machines.rights`).
"""

from collections.abc import Collection

from maxq.harness.contracts.environment import Capability

MEMORY_BYTES = 2 << 30  # of a container, none of it swapped; a broker in Java takes 1 GiB
PROCESSES_MAX = 2048  # of a container, threads counted; a broker in Java has some hundreds
# Folders of the root that can be written, in memory. Java unpacks libraries in /tmp and runs them.
WRITABLE = {"/tmp": "rw,nosuid,nodev,exec,size=256m,mode=1777"}
TO_BEGIN = frozenset({"NET_ADMIN"})
NETWORK = frozenset(
    {
        *(Capability.CUT, Capability.LOSS, Capability.CHANGE_ADDRESS, Capability.POWER_LOSS),
        Capability.DELAY,
    }
)


def of_machine(needs: Collection[Capability], *, other_user: bool) -> tuple[str, ...]:
    """The rights that a machine's process 1 keeps.

    Args:
        needs: what the run's faults and workloads need.
        other_user: nodes run as another user than this process, whose files they write: it takes
            his identity, signals his processes, and reaches the harness's socket.
    """
    network = ("NET_ADMIN",) if NETWORK & set(needs) else ()  # addresses, packet rules, cables
    return (*network, *(("DAC_OVERRIDE", "KILL", "SETGID", "SETUID") if other_user else ()))


def of_client(*, other_user: bool) -> tuple[str, ...]:
    """The rights that process 1 of the clients keeps: it has two addresses, and tries rules."""
    return ("NET_ADMIN", *(("DAC_OVERRIDE",) if other_user else ()))
