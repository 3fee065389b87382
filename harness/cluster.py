"""What nemeses and workloads may know of the cluster: `ClusterView`.

Faults choose their victim by role at the time of the fault, so a view answers about now, by asking
the cluster, and says None where it cannot know. The lifecycle implements it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from harness.client.outcome import Client
from harness.environments.api import Capability, Role
from harness.generator import Generator
from harness.targets.api import Node
from reference.rpc import Dial

# What a node may be at a moment: a role, or what the cluster has made of it.
Part = Literal["namesrv", "controller", "broker", "master", "slave", "controller-leader"]


class Proof(msgspec.Struct, frozen=True):
    """What a probe saw. `holds` is whether that proves the fault, or its heal, took effect."""

    holds: bool
    seen: dict[str, Any]


class ClusterView(Protocol):
    """The cluster as faults and clients see it."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    def address(self, node: str) -> str:
        """``ip:port`` of a node now."""
        ...

    def by_role(self, role: Role) -> Sequence[Node]: ...

    async def playing(self, part: Part) -> Sequence[str]:
        """Names of the nodes that should run and play a part now, in order; nobody where the
        cluster does not tell."""
        ...

    def namesrvs(self) -> Sequence[str]:
        """Addresses of all name servers."""
        ...

    @property
    def dial(self) -> Dial: ...

    def running(self, node: str) -> bool:
        """Whether the node should run: started, and not killed by a fault."""
        ...

    async def kill(self, node: str) -> Proof:
        """End the node's process as SIGKILL does; prove it: process gone, port refused."""
        ...

    async def power_loss(self, node: str) -> Proof:
        """End the node as a loss of its machine's power does: as `kill`, and what its disk had
        not synced is lost. Needs `Capability.POWER_LOSS`."""
        ...

    async def start(self, node: str) -> Proof:
        """Start the node on its store; prove it: process alive, port answers. No error if it
        runs already."""
        ...


class FaultPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A fault: what it needs, when it strikes, how it is healed, who does it, its colour."""

    name: str
    needs: frozenset[Capability]
    generator: Generator
    final_generator: Generator
    nemesis: Client
    color: str
    fs: frozenset[str]  # the operations that `nemesis` performs


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What clients do during the run and after it, and how each client is made.

    `final_generator` runs after the heal and reads everything. `topics` maps each topic to its
    number of queues on each broker set; they exist on all replicas before the first fault.
    """

    name: str
    generator: Generator
    final_generator: Generator
    client: Callable[[int], Client]  # thread -> a fresh client
    topics: dict[str, int]
    setup: Callable[[], Awaitable[None]] | None = None
