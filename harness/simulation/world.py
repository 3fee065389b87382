"""A simulated world: machines with disks on one network, and the processes on them.

Everything in it follows from the seed: the same seed gives the same run, byte for byte, in any
process and under any ``PYTHONHASHSEED``.
"""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from harness.simulation.disk import SimDisk
from harness.simulation.loop import Scheduler, SimLoop
from harness.simulation.network import Network
from reference.host import Disk

T = TypeVar("T")
WALL_MS = 1_700_000_000_000  # 2023-11-14: a fixed birth, so that runs are equal on any day


class SimHost:
    """A simulated machine, as one process on it sees it."""

    def __init__(self, world: "World", machine: "SimMachine", process: str) -> None:
        self._world = world
        self._machine = machine
        self._process = process

    @property
    def disk(self) -> Disk:
        return self._machine.disk

    def wall_ms(self) -> int:
        return WALL_MS + self._world.scheduler.now_ns // 1_000_000

    def addresses(self) -> tuple[str, ...]:
        return (self._machine.address,)

    def rng(self, name: str) -> Random:
        return self._world.scheduler.rng(f"host/{self._process}/{name}")

    def log(self, trace: str, /, **fields: object) -> None:
        self._machine.log.append((self._world.scheduler.now_ns, trace, fields))


class SimMachine:
    """A machine: an address and a disk that outlive its processes."""

    def __init__(self, world: "World", name: str, address: str) -> None:
        self.world = world
        self.name = name
        self.stack = world.network.add(name, address)
        self.disk = SimDisk(world.scheduler.rng(f"disk/{name}"))
        self.log: list[tuple[int, str, dict[str, object]]] = []
        self.spawned = 0

    @property
    def address(self) -> str:
        return self.stack.addresses[0]


class World:
    """Machines, processes and the one scheduler under them."""

    def __init__(self, seed: int | str) -> None:
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler)
        self.machines: dict[str, SimMachine] = {}

    def add_machine(self, name: str, address: str) -> SimMachine:
        machine = self.machines[name] = SimMachine(self, name, address)
        return machine

    def process(self, machine: SimMachine) -> tuple[SimLoop, SimHost]:
        """Make a process on a machine: its loop and its host."""
        machine.spawned += 1
        name = f"{machine.name}/{machine.spawned}"
        loop = SimLoop(self.scheduler, name, machine.stack)
        return loop, SimHost(self, machine, name)

    def run(self, machine: SimMachine, main: Callable[[SimHost], Coroutine[Any, Any, T]]) -> T:
        """Run `main` as a process of its own until it returns; what it left running dies with it.

        Raises:
            Deadlock: it waits for something that can never happen.
            Exception: whatever `main` raised.
        """
        loop, host = self.process(machine)
        task = loop.create_task(main(host))
        try:
            self.scheduler.run_until(task.done)
            return task.result()
        finally:
            loop.kill()

    def close(self) -> None:
        """End the world; nothing of it runs any more."""
        self.scheduler.close()
