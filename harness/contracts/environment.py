"""What every environment offers: machines that outlive their processes, and dialers.

A machine is a simulated host, a network namespace, a container or an ssh host. Faults are written
once on the verbs of `Machine`; what an environment cannot do is missing from its `capabilities`
and refused by name, never skipped in silence. Nothing outside the run's own networks is ever
reached. Paths are absolute inside the machine; units are seconds and bytes.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Literal, NamedTuple, Protocol

import msgspec

from maxq.reference.rpc import Dial

NETWORK = "198.18"  # of 198.18.0.0/15, set aside for benchmarks: never a real host
BLOCK = 16  # addresses that a machine owns
CLIENT_ADDRESS, OBSERVER_ADDRESS = f"{NETWORK}.0.2", f"{NETWORK}.0.3"
SIMULATED_DISK_BYTES = 1 << 40
CLIENT = "client"  # the machine that the harness's clients and observers dial from

# What becomes of a small file that is written and synced: it is on the disk, the disk took nothing,
# or the sync did not return in time.
Written = Literal["written", "refused", "hanging"]


class Misread(NamedTuple):
    """A bit of a file, counted from the file's beginning, that is read as another."""

    path: str
    bit: int


# What a dial meets: a listener, a refusal, or nothing at all within its time.
Port = Literal["open", "refused", "silent"]


def machine_address(number: int) -> str:
    """The first address of a machine's block; machines count from 1, block 0 is the harness's."""
    return f"{NETWORK}.{number * BLOCK // 256}.{number * BLOCK % 256}"


class Capability(Enum):
    """Something that only some environments can do."""

    KILL = "kill"  # end a process as SIGKILL does, and see it gone
    RESTART = "restart"  # start a process again on the same store
    PAUSE = "pause"  # stop a process as SIGSTOP does, and let it go on as SIGCONT does
    CUT = "cut"  # take no packets from certain machines, in silence or with resets
    LOSS = "packet-loss"  # lose a random share of the packets from certain machines
    CHANGE_ADDRESS = "change-address"  # give a machine another address of its block, and names
    POWER_LOSS = "power-loss"  # end a machine so that its disk loses what was not synced
    CLOCK = "clock"  # set a machine's wall clock off
    DRIFT = "clock-drift"  # let it drift
    DISK = "disk"  # let a disk take nothing, make it slow or frozen, or read a bit as another
    FILL = "fill-disk"  # let a file that is no node's take what is left of a machine's partition
    DELAY = "delay"  # let packets from certain machines take longer
    BANDWIDTH = "bandwidth"  # let no more than so much come from certain machines


# What no environment of real machines can do: a clock of their own steps only, and a disk of their
# own (`DISK`) can lose its power and fill up only.
SIMULATED_ONLY = frozenset({Capability.DRIFT, Capability.DISK})
REAL_ONLY = frozenset({Capability.BANDWIDTH})  # the simulated network has no capacity
DISK = "store"  # the folder of a machine's data that is on its disk, where power can be lost


class MissingCapability(Exception):
    """A run asks for what this environment cannot do; names both."""


class Lack(msgspec.Struct, frozen=True):
    """What is missing on this machine, and what would mend it: `package` of Debian, or the command
    `mend`. Both are empty where none is known."""

    what: str
    package: str = ""
    mend: str = ""

    def __str__(self) -> str:
        if self.package:
            return f"{self.what} (package {self.package})"
        return f"{self.what}; {self.mend}" if self.mend else self.what


class EnvironmentUnavailable(Exception):
    """This machine cannot host the environment.

    Args:
        message: for whoever named the environment: what is missing, what helps, what works instead.
        lacks: the same in parts, for whoever may take another; nothing: the message is all.
    """

    def __init__(self, message: str, *lacks: Lack) -> None:
        super().__init__(message)
        self.lacks = lacks or (Lack(message),)


class EnvironmentLost(Exception):
    """The environment itself ended in the middle of a run, and the cluster with it."""


class Role(Enum):
    """What a machine runs."""

    NAMESRV = "namesrv"
    CONTROLLER = "controller"
    BROKER = "broker"


class MachineSpec(msgspec.Struct, frozen=True):
    """A machine to make: `name` is unique in the run, such as ``b0-1``. `ports` are those at which
    others connect to its nodes."""

    name: str
    ports: tuple[int, ...] = ()


class ProcessStatus(msgspec.Struct, frozen=True):
    """A process of a machine: its id there, and how it ended (None while it lives).

    `code` is the exit code, or minus the signal that ended it. `stopped`: it lives and SIGSTOP
    holds it (state T).
    """

    pid: int
    code: int | None
    stopped: bool = False


class Cut(msgspec.Struct, frozen=True):
    """Packets that a machine does not take. One direction: what it sends itself still leaves.

    `source` names who sends them, a machine or `CLIENT`; `block` is that machine's block of
    addresses, so that the cut outlives a change of address (for `CLIENT` the one address of
    clients, so that observers keep seeing). With `reset` TCP packets are answered by a reset,
    else nothing comes back. It concerns the connections to these `ports` of either machine; none:
    all packets.
    """

    source: str
    block: str
    reset: bool = False
    ports: tuple[int, ...] = ()


class Loss(msgspec.Struct, frozen=True):
    """Packets of which a machine loses a random share, each by itself. One direction, as a `Cut`.

    `source` names the machine that sends them, `block` is its block of addresses; `percent` of
    them, 1 to 99, are dropped in silence; 100 as well where only connections to these `ports` of
    either machine are concerned. None: all are.
    """

    source: str
    block: str
    percent: int
    ports: tuple[int, ...] = ()


class Delay(msgspec.Struct, frozen=True):
    """Packets to a machine that take longer, and how much may come. One direction, as a `Cut`.

    `source` names the machine that sends them, `block` is its block of addresses. They take `ms`
    longer, give or take up to `jitter_ms`, which is drawn anew for each piece; order is kept. Of
    each connection at most `kb_s` kB (1,000 bytes) come in a second; 0: no bound. It concerns the
    connections to these `ports` of either machine; none: all.
    """

    source: str
    block: str
    ms: int = 0
    jitter_ms: int = 0
    kb_s: int = 0
    ports: tuple[int, ...] = ()

    def concerns(self, port: int) -> bool:
        """Whether it concerns connections to a port."""
        return not self.ports or port in self.ports


class Detour(msgspec.Struct, frozen=True):
    """What was seen of delays whose packets take a way of their own, through proxies.

    `straight` are connections that should and do not, as ``ip:port>ip:port``; `redirected` is how
    many were sent that way since it is there.
    """

    straight: tuple[str, ...]
    redirected: int


class Echo(msgspec.Struct, frozen=True):
    """What a proxy does to an echo: how long that takes, and how fast data come where they are
    bounded."""

    ms: float
    kb_s: float | None = None


class ClockShown(msgspec.Struct, frozen=True):
    """What a machine's wall clock shows: `ahead_ms`, how far it is ahead of the time of the run
    (the running loop's, whose zero is anywhere).

    `followed`: whether the process that was asked about has that clock, where it could have
    another; None where nobody was asked about, or all ask the machine.
    """

    ahead_ms: float
    followed: bool | None = None


class Dropped(msgspec.Struct, frozen=True):
    """How many packets of a source a loss has dropped, and of how many that came."""

    packets: int
    of: int


class Machine(Protocol):
    """One host of the cluster. It lives from `Environment.up` to `Environment.down`."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Its IPv4 address now."""
        ...

    @property
    def block(self) -> str:
        """All addresses it may have, such as ``198.18.0.16/28``; nobody else ever has one."""
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

    async def command(self, pid: int) -> Sequence[str]:
        """The command line of a process that `spawn` started, as the machine has it; empty of one
        that has ended."""
        ...

    async def power_loss(self) -> dict[str, int]:
        """End every process at once and lose what is not synced, at least of what is in the folder
        `DISK` of the data. Peers are told nothing: the machine is silent, and when it is back it
        knows none of its former connections. Returns then, with what was lost, as `lost_bytes` and
        `lost_names`: what was written, and which names were given or taken, in vain. Only where
        `Capability.POWER_LOSS` is.

        Raises:
            OSError: the disk did not do what a loss of power does; says what was seen.
        """
        ...

    async def set_clock(self, offset_ms: int, drift_ppm: int) -> None:
        """Let the wall clock be off by `offset_ms` from now on, and by `drift_ppm` microseconds
        more each second; twice 0 sets it right. Returns when all processes see it; those that
        start later do at once. Only where `Capability.CLOCK` is.

        Raises:
            MissingCapability: it cannot drift.
        """
        ...

    async def clock(self, pid: int | None) -> ClockShown:
        """What the wall clock shows, and whether a process that `spawn` started has it. Only where
        `Capability.CLOCK` is.

        Raises:
            OSError: nothing could be read there.
        """
        ...

    async def set_disk(
        self,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
        failing: str = "",
    ) -> None:
        """Make the disk faulty in these ways and no others; without arguments it is sound again.
        Only where `Capability.DISK` is.

        Args:
            full: whatever writes, makes or grows a file fails with ENOSPC.
            sync_ms: how long each sync takes that begins from now on; None: as long as it takes.
            frozen: no sync returns before the disk is not frozen any more; then all do.
            misread: the bit that reads give as another, `get` among them; nothing is written.
            failing: the folder below which every sync fails with EIO; empty: none.
        """
        ...

    async def fill(self, percent: int) -> None:
        """Let a file of no node's take so much of the partition, in percent of what others may use
        (`partition`), with what they use; 0 removes it. Only where `Capability.FILL` is."""
        ...

    async def try_disk(self, *, timeout_s: float) -> Written:
        """Write and sync a small file of no node's, and remove it. Only where `Capability.DISK`
        is."""
        ...

    async def set_delay(self, delays: Sequence[Delay]) -> None:
        """Let packets to this machine be late from now on, in established connections too. Where
        several delays concern a packet the longest counts, and the least bandwidth. Replaces all
        delays of this machine; none ends them. Only where `Capability.DELAY` is."""
        ...

    async def delays(self) -> Sequence[Delay]:
        """The delays in force, as `set_delay` took them. Only where `Capability.DELAY` is."""
        ...

    async def detour(self) -> Detour | None:
        """What is seen of the delays in force where they concern connections through a proxy; None
        where packets themselves are late, so that each dial shows it."""
        ...

    async def echo(self, peer: str) -> Echo:
        """What a proxy does that has the delays of one that leads from here to another machine.
        Only where `detour` says something.

        Raises:
            OSError: it could not be tried; says why.
        """
        ...

    @property
    def dial(self) -> Dial:
        """How processes of this machine reach others, from its present address."""
        ...

    async def set_address(self, address: str) -> None:
        """Have this address instead of the present one, processes running or not. Nobody is told:
        connections of the old address hang, as after a change by DHCP. Only where
        `Capability.CHANGE_ADDRESS` is.

        Raises:
            ValueError: not of the machine's block.
        """
        ...

    async def set_hosts(self, hosts: Mapping[str, str]) -> None:
        """What names of machines mean to the processes of this one, from their next look on: name
        to address, as in a hosts file. Replaces what was set before."""
        ...

    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Take no packets of these sources from now on, in established connections either.
        Replaces all cuts of this machine at once; none heals it. Cuts outlive processes and
        changes of address. Only where `Capability.CUT` is."""
        ...

    async def cut_packets(self) -> dict[str, int]:
        """How many packets each present cut has caught since `cut`, by name of the source."""
        ...

    async def connections(self, block: str) -> frozenset[tuple[str, str]]:
        """The TCP connections that are established with a block of addresses, each as ``ip:port``
        here and there. Only where `Capability.CUT` is."""
        ...

    async def reset_connections(self, block: str, ports: Sequence[int] = ()) -> None:
        """End those of these connections that have one of the ports at either end (none: all): the
        processes of both ends learn of a reset. A kernel that cannot leaves them as they are. Only
        where `Capability.CUT` is."""
        ...

    async def lose(self, losses: Sequence[Loss]) -> None:
        """Lose packets of these sources from now on, in established connections too. Replaces all
        losses of this machine at once; none ends them. Beside its cuts: a packet that is cut is not
        seen here. Losses outlive processes and changes of address. Only where `Capability.LOSS`
        is."""
        ...

    async def lost_packets(self) -> dict[str, Dropped]:
        """What each present loss has dropped since `lose`, by name of the source. Only where
        `Capability.LOSS` is."""
        ...

    async def probe(self, host: str, port: int, *, timeout_s: float) -> Port:
        """Dial from this machine, and say what was met."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it. No error if it is absent."""
        ...

    async def put(self, path: str, data: bytes) -> None:
        """Write a file, with its folders."""
        ...

    async def get(self, path: str) -> bytes | None:
        """Read a file; None if it is absent."""
        ...

    async def age(self, path: str, by_ms: int) -> int | None:
        """Let a file look as if last changed so long ago; how long ago that is, by the machine's
        wall clock, as the file now says. None if it is absent."""
        ...

    async def files(self, folder: str) -> list[str]:
        """Paths of all files below `folder`, relative to it, sorted."""
        ...

    async def sizes(self, folder: str) -> dict[str, int]:
        """How long each file below `folder` is, by its path relative to it, in bytes."""
        ...

    async def partition(self, path: str) -> int:
        """How many bytes of the partition of a file or folder are used or can be: as brokers count,
        without what is held back for others."""
        ...


class Environment(Protocol):
    """A set of machines and the ways to reach them."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    def lacking(self) -> Mapping[Capability, Lack]:
        """What it could do and cannot on this machine, and why."""
        ...

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

    def entrance(self, name: str) -> str:
        """The command by which a person enters a machine while it is up."""
        ...

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
