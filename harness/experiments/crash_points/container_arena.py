"""Two crossed containers, one of which will crash, or add and remove brokers meanwhile (RIP-31).

Of each of two sets one container has the master and the other one the slave, as pairs. A container
that starts has the brokers of its file (B7); an operator adds others. What is checked at the end is
that of pairs (`maxq.harness.experiments.crash_points.pair_arena`), of all brokers, wherever
they run.
"""

import asyncio
from pathlib import PurePosixPath
from typing import Any, ClassVar

import msgspec

from maxq.harness.contracts.layouts import CROSSED_2, CROSSED_3, LayoutKind
from maxq.harness.contracts.target import NODE_FILE, Profile, containers, inner_folder
from maxq.harness.experiments.crash_points.arena import LOOK_S, NotWhole
from maxq.harness.experiments.crash_points.escape_arena import EscapeArena
from maxq.harness.experiments.crash_points.pair_arena import PairArena
from maxq.harness.simulation.crash_points import Crash
from maxq.harness.simulation.loop import SimLoop
from maxq.harness.targets.reference import ReferenceTarget
from maxq.reference.broker.server import Broker
from maxq.reference.container.server import Container
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import AddBrokerRequest, RemoveBrokerRequest

ADD_S = 30.0  # until an addition is answered
CONTAINER_FILE = "/container.conf"


class ContainerArena(PairArena):
    """Arguments as `Arena`. Names of processes are those of containers, and of the name server."""

    layout: ClassVar[LayoutKind | None] = CROSSED_2
    sets: ClassVar[tuple[str, ...]] = ("b0", "b1")

    def __init__(self, crash: Crash | None, **given: Any) -> None:
        super().__init__(crash, **given)
        self.containers = {one.name: one for one in containers(self.nodes.values())}
        self.unlisted = set[str]()  # brokers that are in no container's file
        self.answers: list[tuple[str, int]] = []  # to additions and removals: whose, and the code
        self.unanswered = 0  # of those
        self._squatter: SimLoop | None = None

    # Processes.

    def start(self, *names: str) -> None:
        for name in names:
            if name in self.containers:
                self._start_container(name)
            else:
                super().start(name)

    def _start_container(self, name: str) -> None:
        whole, disk = self.containers[name], self.world.machines[name].disk
        for broker in whole.brokers:
            disk.install(_path(broker), self._file(broker))
        listed = tuple(b for b in whole.brokers if b not in self.unlisted)
        whole = msgspec.structs.replace(whole, brokers=listed)
        addresses = {node: self.address(node) for node in self.nodes}
        content = ReferenceTarget().container(whole, self._settings, addresses, "").encode()
        disk.install(CONTAINER_FILE, content)
        self._spawn(name, "container", content, file=CONTAINER_FILE)

    def start_alone(self, *brokers: str) -> None:
        """Start brokers as processes of their own, on the machines of their containers."""
        for name in brokers:
            self._spawn(name, "broker", self._file(name), on=self.nodes[name].process)

    def replace(self, victim: str) -> None:
        raise NotWhole(f"{victim} refuses to start")

    def brokers(self) -> dict[str, Broker]:
        return super().brokers() | {
            PurePosixPath(inner.file.path).parent.name: inner.broker
            for process in self.processes.values()
            if isinstance(process.node, Container) and process.loop.alive
            for inner in process.node.brokers
        }

    # What operators do.

    def wanted(self) -> list[str]:
        """The brokers that no container has."""
        return sorted(node.name for node in self.nodes.values() if node.container
                      and node.name not in self.brokers())  # fmt: skip

    def add(self, broker: str) -> None:
        """Have its container add a broker; the answer goes to `answers`."""
        request = AddBrokerRequest(config_path=_path(broker))
        self.ask(self._asked(broker, RequestCode.ADD_BROKER, to_ext(request)))

    def remove(self, broker: str) -> None:
        """Have its container remove a broker."""
        node = self.nodes[broker]
        request = RemoveBrokerRequest(
            broker_cluster_name="maxq", broker_name=node.broker_set, broker_id=node.replica
        )
        self.ask(self._asked(broker, RequestCode.REMOVE_BROKER, to_ext(request)))

    async def _asked(self, broker: str, code: RequestCode, ext: dict[str, str]) -> None:
        self.unanswered += 1
        container = self.containers[self.nodes[broker].container]
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            try:
                address = f"{self.address(broker)}:{container.port}"
                answer = await pool.call(address, Frame(code=code, ext=ext), timeout_s=ADD_S)
                self.answers.append((broker, answer.code))
            except (OSError, TimeoutError):
                self.answers.append((broker, -1))
            self.unanswered -= 1
            pool.close()

    def add_all(self) -> None:
        """Have every broker added that is not there, as often as that takes.

        Raises:
            NotWhole: a container does not take one.
        """
        for broker in self.wanted():
            self.until(lambda broker=broker: self._added(broker), f"{broker} is added")  # type: ignore[misc]

    def _added(self, broker: str) -> bool:
        if broker not in self.wanted():
            return True
        asked = len(self.answers)
        self.add(broker)
        self.until(lambda: len(self.answers) > asked, "an answer")
        return self.answers[-1][1] == ResponseCode.SUCCESS

    # What is in the way.

    def take_port(self, broker: str, apart: int) -> None:
        """Another program listens at the port so far from a broker's own."""
        node = self.nodes[broker]
        loop, _ = self.world.process(self.world.machines[node.process])

        async def listen() -> None:
            await loop.create_server(asyncio.Protocol, "0.0.0.0", node.port + apart)

        loop.create_task(listen())
        self._squatter = loop
        self.sleep(LOOK_S)

    def give_port(self) -> None:
        """It ends."""
        if self._squatter is not None:
            self._squatter.kill()
            self._squatter = None


class DegradingArena(ContainerArena):
    """Two crossed containers whose masters take messages alone, where the other one is down;
    arguments as `Arena`."""

    profile: ClassVar[Profile] = "P-AUTO"


class LocalEscapeArena(ContainerArena, EscapeArena):
    """Three crossed containers. The first set's slave and the second set's master share a process,
    so that what waits at the first moves within it; arguments as `Arena`."""

    layout: ClassVar[LayoutKind | None] = CROSSED_3
    sets: ClassVar[tuple[str, ...]] = ("b0", "b1", "b2")


def _path(broker: str) -> str:
    return f"{inner_folder('', broker)}/{NODE_FILE}"
