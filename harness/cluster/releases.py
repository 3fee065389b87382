"""Nodes that are started as another release, or with other settings, on the store that they have.

What a node is now is proven twice: its process has the command of the release, as the machine says,
and its answers have the number of that version in their headers. Which settings it has is proven
by its own answer (26, 319, 1010). Units: seconds.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from maxq.harness.client.node_settings import otherwise, settings_of
from maxq.harness.client.probes import PROBE_TIMEOUT_S, probing, until
from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.cluster import Proof
from maxq.harness.contracts.environment import Environment, MissingCapability, Role
from maxq.harness.contracts.target import Node, Settings, Target, containing
from maxq.harness.targets.mixed import MixedTarget
from maxq.harness.targets.rocketmq.releases import version_name
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame

ANSWER_TIMEOUT_S = 30.0  # a JVM opens its port some seconds before it answers
# Brokers answer it and others refuse it, whatever their state; both with their version, which not
# all answers of RocketMQ have.
QUESTION = RequestCode.GET_BROKER_RUNTIME_INFO


class Releases:
    """What the nodes of a run are started as.

    Args:
        environment: where they run.
        nodes: their processes.
        target: what they are.
        settings: how they are set up.
    """

    def __init__(
        self, environment: Environment, nodes: Nodes, target: Target, settings: Settings
    ) -> None:
        self._environment = environment
        self._nodes = nodes
        self._target = target
        self._settings = settings
        self._own: dict[str, str] = {}  # settings that acts gave nodes, as ``b0-1:flushDiskType``
        self._addresses: dict[str, str] = {}  # that nodes are configured with, for the whole run

    async def equip(self, node: str, *, first: bool = False) -> None:
        """Put a node's configuration on its machine, and what its target needs there: that of a
        broker that runs alone only if it is the `first`."""
        if not self._addresses:
            names = [n.name for n in self._nodes.all]
            self._addresses = {name: self._nodes.machine(name).address for name in names}
        machine, known = self._nodes.machine(node), self._nodes.node(node)
        await self._target.install(machine)
        config = self.config_of(known, first=first)
        await machine.put(self._nodes.config_path(node), config.encode())
        if known.container and node == self._nodes.on(known.container)[0]:
            of = self._nodes.containers[known.container]
            target = containing(self._target)
            file = target.container(of, self._settings, self._addresses, machine.data_dir)
            await machine.put(self._nodes.config_path(of.name), file.encode())

    @property
    def pairs(self) -> bool:
        """Whether brokers have their ids from their files."""
        return not self._settings.topology.controllers

    def config_of(self, node: Node, *, first: bool = False) -> str:
        """A node's properties file, as `equip` puts it there."""
        settings = self._settings if first else msgspec.structs.replace(self._settings, alone=False)
        settings = msgspec.structs.replace(settings, keys={**settings.keys, **self._own})
        own = self._nodes.folder(node.name)
        return self._target.config(node, settings, self._addresses, own)

    async def replace_release(self, node: str, release: str) -> Proof:
        steps: dict[str, Any] = {}
        holds = True
        if self._nodes.running(node):
            stopped = await self._nodes.stop(node)
            holds, steps = stopped.holds, {"stopped": stopped.seen, **stopped.forced}
        started = await self.start_as(node, release)
        return Proof(holds and started.holds, {**steps, **started.seen})

    def _refuse_beside(self, node: str) -> None:
        if self._nodes.process(node) != node:
            raise MissingCapability(f"{node} is in a container, which starts all of its brokers")

    async def change_settings(self, node: str, settings: Mapping[str, str]) -> Proof:
        self._refuse_beside(node)
        steps: dict[str, Any] = {}
        holds = True
        if self._nodes.running(node):
            stopped = await self._nodes.stop(node)
            holds, steps = stopped.holds, {"stopped": stopped.seen, **stopped.forced}
        self._own |= {f"{node}:{key}": value for key, value in settings.items()}
        await self.equip(node)
        started = await self._nodes.start(node)
        other = await self._otherwise(self._nodes.node(node), settings) if started.holds else None
        seen = {**steps, "started": started.seen, "settings": dict(settings)}
        seen |= {"otherwise": other} if other else {}
        return Proof(holds and started.holds and other == {}, seen)

    async def _otherwise(self, node: Node, wanted: Mapping[str, str]) -> dict[str, str] | None:
        """What a node says it has instead of settings that it was given; None: it does not say."""
        found: list[dict[str, str]] = []
        async with probing(self._environment.observer_dial) as pool:

            async def answers() -> bool:
                address = self._nodes.address(node.name)
                told = await settings_of(pool, address, node.role)
                found.extend([] if told is None else [told])
                return bool(found)

            await until(answers, ANSWER_TIMEOUT_S)
        return otherwise(wanted, found[0]) if found else None

    async def start_as(self, node: str, release: str) -> Proof:
        if not isinstance(self._target, MixedTarget):
            raise MissingCapability(f"this run has one release, and cannot start {node} as another")
        self._refuse_beside(node)
        before = self._target.assigned(node)
        self._target.assign(node, release)
        await self.equip(node)
        started = await self._nodes.start(node)
        seen: dict[str, Any] = {"from": before, "to": release, "started": started.seen}
        seen |= {k: v for k, v in started.seen.items() if k == "ended_by_itself"}
        if not started.holds:
            return Proof(False, seen)
        known = self._nodes.node(node)
        wanted, version = self._target.answers_as(known), await self._version(known)
        command = await self._runs_as_wanted(known)
        seen |= {"version": None if version is None else version_name(version), "command": command}
        # Java's controllers put no version into their answers.
        silent = known.role is Role.CONTROLLER and version == 0
        return Proof(command and (version == wanted or silent), seen)

    async def _runs_as_wanted(self, node: Node) -> bool:
        """Whether the machine says that the node's process has the command of its target."""
        path = self._nodes.config_path(node.name)
        wanted = [*self._target.argv(node, self._settings, path)]
        found = [*await self._nodes.command(node.name)]
        return found[-len(wanted) + 1 :] == wanted[1:]  # the machine knows the program by its path

    async def _version(self, node: Node) -> int | None:
        """The version of a node's answers; None: it does not answer."""
        question = Frame(code=QUESTION, ext={})
        found: list[int] = []
        async with probing(self._environment.observer_dial) as pool:

            async def answers() -> bool:
                address = self._nodes.address(node.name)
                try:
                    answer = await pool.call(address, question, timeout_s=PROBE_TIMEOUT_S)
                except (OSError, RemoteProtocolError):
                    return False
                found.append(answer.version)
                return True

            await until(answers, ANSWER_TIMEOUT_S)
        return found[0] if found else None
