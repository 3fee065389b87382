"""A simulated world: machines with disks on one network, and the processes on them.

Everything in it follows from the seed: the same seed gives the same run, byte for byte, in any
process and under any ``PYTHONHASHSEED``.
"""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import msgspec

from maxq.harness.simulation.disk import Lost, SimDisk
from maxq.harness.simulation.loop import Scheduler, SimLoop
from maxq.harness.simulation.network import Network
from maxq.harness.simulation.steps import Steps
from maxq.reference.host import Disk

T = TypeVar("T")
WALL_MS = 1_700_000_000_000  # 2023-11-14: a fixed birth, so that runs are equal on any day


class Clock(msgspec.Struct, frozen=True):
    """How far a machine's wall clock is off: by `offset_ms` at `since_ns` of virtual time, and by
    `drift_ppm` microseconds more in each second after it."""

    offset_ms: int = 0
    drift_ppm: int = 0
    since_ns: int = 0

    def wall_ms(self, now_ns: int) -> int:
        """What the clock shows."""
        drift_ns = (now_ns - self.since_ns) * self.drift_ppm // 1_000_000
        return WALL_MS + self.offset_ms + (now_ns + drift_ns) // 1_000_000


class SimHost:
    """A simulated machine, as one process on it sees it."""

    def __init__(self, world: "World", machine: "SimMachine") -> None:
        self._world = world
        self._machine = machine

    @property
    def disk(self) -> Disk:
        return self._machine.disk

    def wall_ms(self) -> int:
        return self._machine.clock.wall_ms(self._world.scheduler.now_ns)

    def hour(self) -> int:
        return self.wall_ms() // 3_600_000 % 24

    def addresses(self) -> tuple[str, ...]:
        return (self._machine.address,)

    def home(self) -> str:
        return "/root"

    def rng(self, name: str) -> Random:
        # Of the machine and not of the process: how often a node was started before must not
        # change what it draws for a term or a message.
        return self._world.scheduler.rng(f"host/{self._machine.name}/{name}")

    def log(self, trace: str, /, **fields: object) -> None:
        self._machine.log.append((self._world.scheduler.now_ns, trace, fields))


class SimMachine:
    """A machine: an address and a disk that outlive its processes."""

    def __init__(self, world: "World", name: str, address: str) -> None:
        self.world = world
        self.name = name
        self.stack = world.network.add(name, address)
        self.clock = Clock()
        self.disk = SimDisk(
            world.scheduler.draws.of("disk", name),
            wall_ms=lambda: self.clock.wall_ms(world.scheduler.now_ns),
        )
        self.log: list[tuple[int, str, dict[str, object]]] = []
        self.loops: list[SimLoop] = []  # of its processes, dead ones too

    @property
    def address(self) -> str:
        return self.stack.addresses[0]

    def set_clock(self, offset_ms: int, drift_ppm: int) -> None:
        """Let the wall clock be off by so much from now on, and drift from there."""
        self.clock = Clock(offset_ms, drift_ppm, self.world.scheduler.now_ns)

    def lose_power(self) -> Lost:
        """End every process, lose what is not synced, and do not answer until the stack is
        `powered` again, or a process starts."""
        for loop in self.loops:
            loop.end()
        self.stack.lose_power()
        scheduler = self.world.scheduler
        return self.disk.power_loss(scheduler.draws.of("power", self.name, scheduler.now_ns))


class World:
    """Machines, processes and the one scheduler under them.

    Args:
        seed: of all draws.
        steps: records every step; None: nothing is recorded.
        constant_latency: every packet takes the same time.
    """

    def __init__(
        self, seed: int | str, *, steps: Steps | None = None, constant_latency: bool = False
    ) -> None:
        self.scheduler = Scheduler(seed, steps=steps)
        self.network = Network(self.scheduler, constant_latency=constant_latency)
        self.machines: dict[str, SimMachine] = {}

    def add_machine(self, name: str, address: str) -> SimMachine:
        machine = self.machines[name] = SimMachine(self, name, address)
        return machine

    def process(self, machine: SimMachine) -> tuple[SimLoop, SimHost]:
        """Make a process on a machine, which has power then: its loop and its host."""
        machine.stack.powered = True
        loop = SimLoop(self.scheduler, f"{machine.name}/{len(machine.loops) + 1}", machine.stack)
        machine.loops.append(loop)
        return loop, SimHost(self, machine)

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
