"""What every environment offers: machines that outlive their processes, and dialers.

A machine is a simulated host, a network namespace, a container or an ssh host. Faults are written
once on the verbs of `Machine`; what an environment cannot do is missing from its `capabilities`
and refused by name, never skipped in silence. Nothing outside the run's own networks is ever
reached. Paths are absolute inside the machine; units are seconds and bytes.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

import msgspec

from reference.rpc import Dial

NETWORK = "198.18"  # of 198.18.0.0/15, set aside for benchmarks: never a real host
BLOCK = 16  # addresses that a machine owns
CLIENT_ADDRESS, OBSERVER_ADDRESS = f"{NETWORK}.0.2", f"{NETWORK}.0.3"


def machine_address(number: int) -> str:
    """The first address of a machine's block; machines count from 1, block 0 is the harness's."""
    return f"{NETWORK}.{number * BLOCK // 256}.{number * BLOCK % 256}"


class Capability(Enum):
    """Something that only some environments can do."""

    KILL = "kill"  # end a process as SIGKILL does, and see it gone
    RESTART = "restart"  # start a process again on the same store
    POWER_LOSS = "power-loss"  # end a machine so that its disk loses what was not synced


class MissingCapability(Exception):
    """A run asks for what this environment cannot do; names both."""


class EnvironmentUnavailable(Exception):
    """This machine cannot host the environment; the message says what is missing and what helps."""


class EnvironmentLost(Exception):
    """The environment itself ended in the middle of a run, and the cluster with it."""


class Role(Enum):
    """What a machine runs."""

    NAMESRV = "namesrv"
    CONTROLLER = "controller"
    BROKER = "broker"


class MachineSpec(msgspec.Struct, frozen=True):
    """A machine to make: `name` is unique in the run, such as ``b0-1``."""

    name: str


class ProcessStatus(msgspec.Struct, frozen=True):
    """A process of a machine: its id there, and how it ended (None while it lives).

    `code` is the exit code, or minus the signal that ended it.
    """

    pid: int
    code: int | None


class Machine(Protocol):
    """One host of the cluster. It lives from `Environment.up` to `Environment.down`."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Its IPv4 address now."""
        ...

    @property
    def data_dir(self) -> str:
        """A folder of its own, absolute, that outlives its processes."""
        ...

    async def spawn(self, argv: Sequence[str], *, log: str) -> ProcessStatus:
        """Start a process; its output is appended to the machine's log file `log`."""
        ...

    async def signal(self, pid: int, signal: int) -> None:
        """Send a signal to a process that `spawn` started. An ended process is no error."""
        ...

    async def status(self, pid: int) -> ProcessStatus:
        """How a process that `spawn` started is doing."""
        ...

    async def power_loss(self) -> dict[str, int]:
        """End every process at once and lose what is not synced; returns what was lost, as
        `lost_bytes` and `lost_names`. Only where `Capability.POWER_LOSS` is."""
        ...

    async def put(self, path: str, data: bytes) -> None:
        """Write a file, with its folders."""
        ...

    async def get(self, path: str) -> bytes | None:
        """Read a file; None if it is absent."""
        ...

    async def files(self, folder: str) -> list[str]:
        """Paths of all files below `folder`, relative to it, sorted."""
        ...


class Environment(Protocol):
    """A set of machines and the ways to reach them."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        """Make the machines and their network.

        Raises:
            EnvironmentUnavailable: this host cannot.
        """
        ...

    async def lost(self) -> None:
        """Wait until the environment itself ends, then raise. A run watches this from `up` on.

        Raises:
            EnvironmentLost: it has ended.
        """
        ...

    def machine(self, name: str) -> Machine: ...

    @property
    def dial(self) -> Dial:
        """How clients reach nodes."""
        ...

    @property
    def observer_dial(self) -> Dial:
        """How observers and probes reach nodes: from an address of their own."""
        ...

    async def down(self) -> None:
        """Remove everything `up` made. Safe to call twice, and after a failed `up`."""
        ...
