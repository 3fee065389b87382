"""A cluster that Max-Q did not start, as observers see it: nothing can be done to it.

Its nodes are where a file says (`maxq.harness.contracts.existing`). Ids of brokers are the file's:
controllers never take one back. Stores are on machines that nobody reaches.
"""

from collections.abc import Sequence
from typing import TypeVar

from maxq.harness.cluster.queries import Inquiry
from maxq.harness.contracts.cluster import Part, Proof
from maxq.harness.contracts.environment import MissingCapability, Role
from maxq.harness.contracts.existing import Existing
from maxq.harness.contracts.target import Node, plan
from maxq.reference.rpc import Dial

T = TypeVar("T")
NAME = "a cluster that runs already"


class _Reached:
    """How such a cluster is reached: as anybody does."""

    name = NAME

    def __init__(self, dial: Dial) -> None:
        self.observer_dial = dial


class Attached:
    """The nodes of a file.

    Args:
        existing: which there are.
        dial: how they are reached.
    """

    def __init__(self, existing: Existing, dial: Dial) -> None:
        self.nodes: Sequence[Node] = plan(existing.topology)
        self.all = self.nodes
        self.dial = self.observer_dial = dial
        self._by_name = {node.name: node for node in self.nodes}
        self._addresses = existing.addresses
        self.queries = Inquiry(_Reached(dial), self, existing.cluster)

    # What `Inquiry` asks of nodes.

    def node(self, name: str) -> Node:
        return self._by_name[name]

    def running(self, node: str) -> bool:
        """Nobody has ended it but those whom it belongs to."""
        return True

    async def ended_excused(self, node: str) -> bool:
        """Nothing is known of its process."""
        return False

    async def pause(self, node: str) -> Proof:
        raise MissingCapability(f"{NAME} lets nobody pause {node}")

    async def resume(self, node: str) -> Proof:
        raise MissingCapability(f"{NAME} lets nobody resume {node}")

    # Who is there.

    def address(self, node: str, role: Role | None = None) -> str:
        return self._addresses[node]

    def by_role(self, role: Role) -> Sequence[Node]:
        return self.queries.by_role(role)

    def namesrvs(self) -> Sequence[str]:
        return self.queries.addresses(Role.NAMESRV)

    def controllers(self) -> Sequence[str]:
        return self.queries.addresses(Role.CONTROLLER)

    def resolve(self, address: str) -> str:
        """Names are those of the network."""
        return address

    async def playing(self, part: Part) -> Sequence[str]:
        return await self.queries.playing(part)

    def offers(self, contract: type[T]) -> T:
        """What observers need, and nothing that changes anything.

        Raises:
            MissingCapability: it is something else.
        """
        if isinstance(self, contract):
            return self
        raise MissingCapability(f"{NAME} offers nothing {contract.__name__}")

    # What is known of stores (`maxq.harness.contracts.cluster.Stored`).

    async def identity(self, node: str) -> int | None:
        """By the file."""
        return self._by_name[node].replica

    async def stored(self, node: str, folder: str) -> dict[str, bytes]:
        raise self._no_store(node)

    async def sizes(self, node: str) -> dict[str, int]:
        raise self._no_store(node)

    async def partition(self, node: str) -> int:
        raise self._no_store(node)

    def _no_store(self, node: str) -> OSError:
        return OSError(f"the store of {node} is on a machine that nobody reaches")
