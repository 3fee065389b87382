"""A cluster whose nodes are of several releases, ours among them, and change them.

Each node has a target of its own by name; all else (machines, faults, questions) works on such a
cluster as on any. What a node is can change between two of its starts, on the store that is there:
that is an upgrade, or the way back.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.contracts.environment import Machine
from harness.contracts.nearest import nearest
from harness.contracts.target import Node, Settings, Target, Topology, plan
from harness.targets.rocketmq.releases import MISSING, REFERENCE, parse


def parse_release(text: str) -> str:
    """The target that ``5.1.0``, ``5.4.0:jraft``, ``latest`` or ``reference`` stands for.

    Raises:
        ValueError: there is no such release; names the nearest.
    """
    if text == REFERENCE:
        return REFERENCE
    try:
        return str(parse(f"rocketmq:{text.removeprefix('rocketmq:')}"))
    except ValueError:
        hint = nearest(text, [*MISSING, "latest", REFERENCE])
        raise ValueError(f"no release {text!r}{hint}; there are: {', '.join(MISSING)}, latest, "
                         f"{REFERENCE}") from None  # fmt: skip


def assigned(node: Node, default: str, releases: Mapping[str, str]) -> str:
    """The target of a node: what its name says, else its role, else the run's."""
    keys = (node.name, *(role.value for role in node.roles))
    return next((releases[key] for key in keys if key in releases), default)


def complaint(releases: Iterable[str], topology: Topology) -> str:
    """Why releases cannot be given to these: one is neither a node of a topology nor a role; empty
    if all are."""
    nodes = plan(topology)
    known = {n.name for n in nodes} | {role.value for n in nodes for role in n.roles}
    unknown = next((name for name in releases if name not in known), None)
    return "" if unknown is None else f"no node or role {unknown!r}{nearest(unknown, known)}"


class Mixed:
    """Starts each node by its own target.

    Args:
        targets: by name, such as ``rocketmq:5.1.0``.
        of: the name of each node's target, as it begins.
    """

    def __init__(self, targets: Mapping[str, Target], of: Mapping[str, str]) -> None:
        self._targets = dict(targets)
        self._of = dict(of)
        self.name = " and ".join(sorted({*of.values()}))

    def of(self, node: str) -> str:
        """The name of a node's target now."""
        return self._of[node]

    def other(self, node: str) -> str:
        """Of two targets the one that a node has not; else none: it has to be named."""
        others = [name for name in self._targets if name != self._of[node]]
        return others[0] if len(others) == 1 else ""

    def replace(self, node: str, target: str) -> None:
        """From its next start on a node is another release.

        Raises:
            KeyError: none that this run has.
        """
        self._of[node] = self._targets[target].name

    def _target(self, node: str) -> Target:
        return self._targets[self._of[node]]

    @property
    def patience(self) -> int:
        return max(target.patience for target in self._targets.values())

    @property
    def layer(self) -> str:
        return next(filter(None, (t.layer for t in self._targets.values())), "")

    def ends_with(self, node: str) -> int:
        return self._target(node).ends_with(node)

    def folders(self) -> Sequence[Path]:
        """What any of the releases needs: a node may become each."""
        found = (folder for t in self._targets.values() for folder in t.folders())
        return tuple(dict.fromkeys(found))

    def follows_address(self, node: Node) -> bool:
        return self._target(node.name).follows_address(node)

    def prepare(self) -> dict[str, str]:
        """Have all releases; of what release each node is, and each component of each."""
        found = dict(self._of)
        for name, target in sorted(self._targets.items()):
            found |= {f"{name} {what}": of for what, of in target.prepare().items()}
        return found

    def config(self, node: Node, settings: Settings, addresses: dict[str, str], data: str) -> str:
        return self._target(node.name).config(node, settings, addresses, data)

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        return self._target(node.name).argv(node, settings, config_path)

    async def install(self, machine: Machine) -> None:
        await self._target(machine.name).install(machine)
