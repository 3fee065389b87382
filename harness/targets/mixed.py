"""Several targets in one cluster: each node is configured and started by its own.

Which target a node has can be changed while the node is down; it is started as that from then on.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from maxq.harness.contracts.environment import Machine
from maxq.harness.contracts.target import Node, Settings, Target


class MixedTarget:
    """Runs each node as one of several targets.

    Args:
        targets: by name, such as ``reference`` and ``rocketmq:5.1.0``.
        assigned: the name of each node's target, by name of the node; others have the first.
    """

    def __init__(self, targets: Mapping[str, Target], assigned: Mapping[str, str]) -> None:
        self._targets = dict(targets)
        self._assigned = dict(assigned)
        self._usual = next(iter(self._targets))

    @property
    def name(self) -> str:
        own = (f"{node} {of}" for node, of in sorted(self._assigned.items()) if of != self._usual)
        return ", ".join([self._usual, *own])

    @property
    def patience(self) -> int:
        return max(target.patience for target in self._targets.values())

    @property
    def layer(self) -> str:
        return next((t.layer for t in self._targets.values() if t.layer), "")

    def assigned(self, node: str) -> str:
        """The name of the target that a node has now."""
        return self._assigned.get(node, self._usual)

    def assign(self, node: str, name: str) -> None:
        """Let a node be another target from its next start on.

        Raises:
            ValueError: the run has no such target.
        """
        if name not in self._targets:
            raise ValueError(f"the run has no {name}; it has: {', '.join(self._targets)}")
        self._assigned[node] = name

    def _of(self, node: str) -> Target:
        return self._targets[self.assigned(node)]

    def folders(self) -> Sequence[Path]:
        """Those of all targets: a node may be any of them later."""
        return tuple(dict.fromkeys(f for t in self._targets.values() for f in t.folders()))

    def prepare(self) -> dict[str, str]:
        """Have everything of every target. Returns of what release each component of each is, as
        ``rocketmq:5.1.0 broker``.

        Raises:
            EnvironmentUnavailable: something cannot be had; says what helps.
        """
        return {
            f"{name} {component}": release
            for name, target in self._targets.items()
            for component, release in target.prepare().items()
        }

    def ends_with(self, node: Node) -> int:
        """As its target does."""
        return self._of(node.name).ends_with(node)

    def follows_address(self, node: Node) -> bool:
        """As its target does."""
        return self._of(node.name).follows_address(node)

    def answers_as(self, node: Node) -> int:
        """As its target does."""
        return self._of(node.name).answers_as(node)

    def config(self, node: Node, settings: Settings, addresses: dict[str, str], data: str) -> str:
        """As its target has it."""
        return self._of(node.name).config(node, settings, addresses, data)

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        """The command of its target."""
        return self._of(node.name).argv(node, settings, config_path)

    async def install(self, machine: Machine) -> None:
        """What its target needs on its machine, which has the node's name."""
        await self._of(machine.name).install(machine)
