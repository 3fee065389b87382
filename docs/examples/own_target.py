"""Example target: a build of one's own, here Max-Q's reference with quicker controllers.

What it needs is what is below: how a node is configured, started and ended, in RocketMQ's own keys.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from maxq.harness.contracts.environment import Machine, Role
from maxq.harness.contracts.target import Node, Settings
from maxq.harness.environments.docker import PYTHON
from maxq.harness.run.plugins import TargetKind
from maxq.harness.targets.reference import properties

QUICK_MS = 500  # between looks of a controller for brokers that are silent
MQ_VERSION = 479  # what the answers of its nodes have as version: RocketMQ's number of 5.3.3


class QuickWatch:
    """Nodes of ``python -m maxq.reference``."""

    name = "quick-watch"
    patience = 1  # as fast as the reference
    layer = ""  # of the image in docker: nothing beside what all have

    def __init__(self, python: str) -> None:
        self._python = python

    def prepare(self) -> dict[str, str]:
        """Nothing is fetched or built; else: of what release each component is."""
        return {}

    def folders(self) -> Sequence[Path]:
        """No folder of this machine is read by nodes, such as one of jars."""
        return ()

    async def install(self, machine: Machine) -> None:
        """Nothing is copied to a machine."""

    def config(self, node: Node, settings: Settings, addresses: dict[str, str], data: str) -> str:
        """The properties that every target has, and one that only this has."""
        lines = properties(node, settings, addresses, data)
        if Role.CONTROLLER in node.roles:
            lines["scanNotActiveBrokerInterval"] = str(QUICK_MS)
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        """What runs in the foreground on a node's machine."""
        return [self._python, "-m", "maxq.reference", node.role.value, "--config", config_path]

    def ends_with(self, node: Node) -> int:
        """The exit code of a node that was asked to end; a JVM's is 143."""
        return 0

    def follows_address(self, node: Node) -> bool:
        """A running node goes with its machine to another address."""
        return True

    def answers_as(self, node: Node) -> int:
        """The version in the headers of its answers."""
        return MQ_VERSION


def make(in_containers: bool) -> QuickWatch:
    """Nodes in containers have an interpreter of their own."""
    return QuickWatch(PYTHON if in_containers else sys.executable)


QUICK_WATCH = TargetKind(
    name="quick-watch",
    about="the reference, whose controllers look for silent brokers twice a second",
    make=make,
)
