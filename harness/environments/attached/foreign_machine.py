"""A container that somebody else made, as a machine: its one process, and the network it has.

Signals go through the engine, which then leaves an ended container as it is, whatever its restart
policy. Where cuts or losses are needed, an agent in a container beside it has the same network, as
long as that lasts: the engine gives a container that starts again another one, so the agent is
replaced and its rules are put again, with the addresses that all machines have then.

Nothing of its disk is reached. Units: seconds, bytes.
"""

import asyncio
import signal as signals
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NoReturn, ParamSpec, TypeVar

import msgspec

from maxq.harness.contracts.environment import (
    CLIENT,
    ClockShown,
    Cut,
    Delay,
    Dropped,
    Echo,
    Loss,
    Misread,
    MissingCapability,
    Port,
    ProcessStatus,
    Written,
)
from maxq.harness.environments.engine.client import Engine, EngineFailed, Standing
from maxq.harness.environments.machines.machine import LinkedNetwork
from maxq.reference.rpc import Dial

LOG = "node.log"  # what its process wrote, in its folder
LOG_LINES = 20_000
BY_SIGNAL = 128  # an exit code beyond is that of a process that a signal ended, by this much more
RESTARTED = -1  # the exit code of a process that others have started again: nobody knows it
Rule = TypeVar("Rule", Cut, Loss)
P = ParamSpec("P")
T = TypeVar("T")


def status_of(standing: Standing, pid: int) -> ProcessStatus:
    """How a process is that was a container's; one that has another now has ended by itself, and
    others have started it again."""
    if standing.pid == pid:
        return ProcessStatus(pid=pid, code=None, stopped=standing.paused)
    if standing.pid:
        return ProcessStatus(pid=pid, code=RESTARTED)
    killed = standing.code == BY_SIGNAL + signals.SIGKILL
    return ProcessStatus(pid=pid, code=-signals.SIGKILL if killed else standing.code)


class ForeignMachine:
    """A container.

    Args:
        engine: that has it.
        name: of its node.
        standing: how it was found.
        address: of its node.
        folder: of the run, where its log goes.
        network: where it finds its agent; None: nothing is done to its network.
        started: called once its process has been started again, to have its agent replaced.
        owes: called with whether its process may be taken away from now on.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        standing: Standing,
        address: str,
        folder: str,
        *,
        started: Callable[[str], Awaitable[None]],
        owes: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._name = name
        self.standing = standing
        self._address = address
        self._folder = folder
        self._started = started
        self._owes = owes
        self.network: LinkedNetwork | None = None
        self._cuts: Sequence[Cut] = ()
        self._losses: Sequence[Loss] = ()

    @property
    def name(self) -> str:
        return self._name

    @property
    def address(self) -> str:
        return self._address

    @property
    def block(self) -> str:
        return f"{self._address}/32"

    @property
    def data_dir(self) -> str:
        return self._folder

    # Its process.

    async def spawn(self, argv: Sequence[str], *, log: str) -> ProcessStatus:
        """Start the container as it is: the command is its own."""
        before, id_ = self.standing.addresses, self.standing.id
        await _asked(self._engine.do, id_, "start")
        self.standing = await _asked(self._engine.standing, id_)
        for network, address in before.items():
            if address == self._address:
                self._address = self.standing.addresses.get(network, address)
        await self._started(self._name)
        return ProcessStatus(pid=self.standing.pid, code=None)

    async def signal(self, pid: int, signal: int) -> None:
        """As the contract says; SIGSTOP and SIGCONT hold and free all that the container runs."""
        id_ = self.standing.id
        self._owes(id_)
        if signal in (signals.SIGSTOP, signals.SIGCONT):
            now = await _asked(self._engine.standing, id_)
            if now.pid and now.paused != (signal == signals.SIGSTOP):
                await _asked(self._engine.do, id_, "unpause" if now.paused else "pause")
            return
        await _asked(self._engine.signal, id_, signal)

    async def status(self, pid: int) -> ProcessStatus:
        return status_of(await _asked(self._engine.standing, self.standing.id), pid)

    async def command(self, pid: int) -> Sequence[str]:
        return ()  # it is what its maker said

    # Its network.

    def _own_network(self) -> LinkedNetwork:
        if self.network is None:
            raise MissingCapability(f"nothing is done to the network of {self._name} in this run")
        return self.network

    async def cut(self, cuts: Sequence[Cut]) -> None:
        self._cuts = cuts
        await self._own_network().cut(cuts)

    async def cut_packets(self) -> dict[str, int]:
        return await self._own_network().cut_packets() if self.network else {}

    async def connections(self, block: str) -> frozenset[tuple[str, str]]:
        return await self._own_network().connections(block)

    async def reset_connections(self, block: str) -> None:
        await self._own_network().reset_connections(block)

    async def lose(self, losses: Sequence[Loss]) -> None:
        self._losses = losses
        await self._own_network().lose(losses)

    async def lost_packets(self) -> dict[str, Dropped]:
        return await self._own_network().lost_packets() if self.network else {}

    async def probe(self, host: str, port: int, *, timeout_s: float) -> Port:
        return await self._own_network().probe(host, port, timeout_s=timeout_s)

    async def again(self, blocks: Mapping[str, str]) -> None:
        """Put its rules again, with the blocks of addresses that machines have now."""
        if self._cuts:
            await self.cut([_at(cut, blocks) for cut in self._cuts])
        if self._losses:
            await self.lose([_at(loss, blocks) for loss in self._losses])

    # Its files, which nobody reaches but what it wrote to its output.

    async def get(self, path: str) -> bytes | None:
        if path != f"{self._folder}/{LOG}":
            return None
        return await _asked(self._engine.log, self.standing.id, LOG_LINES)

    async def files(self, folder: str) -> list[str]:
        return []

    async def sizes(self, folder: str) -> dict[str, int]:
        return {}

    async def partition(self, path: str) -> int:
        self._refuse("look at its disk")

    async def remove(self, path: str) -> None:
        self._refuse("remove files")

    async def put(self, path: str, data: bytes) -> None:
        self._refuse("write files")

    async def age(self, path: str, by_ms: int) -> int | None:
        self._refuse("change files")

    async def fill(self, percent: int) -> None:
        self._refuse("fill its disk")

    async def set_disk(
        self,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
        failing: str = "",
    ) -> None:
        self._refuse("break its disk")

    async def try_disk(self, *, timeout_s: float) -> Written:
        self._refuse("try its disk")

    async def power_loss(self) -> dict[str, int]:
        self._refuse("take its power")

    async def set_clock(self, offset_ms: int, drift_ppm: int) -> None:
        self._refuse("set its clock")

    async def clock(self, pid: int | None) -> ClockShown:
        self._refuse("read its clock")

    async def set_delay(self, delays: Sequence[Delay]) -> None:
        self._refuse("delay its packets")

    async def delays(self) -> Sequence[Delay]:
        return ()

    async def detour(self) -> None:
        return None

    async def echo(self, peer: str) -> Echo:
        self._refuse("delay its packets")

    @property
    def dial(self) -> Dial:
        self._refuse("dial from it")

    async def set_address(self, address: str) -> None:
        self._refuse("change its address")

    async def set_hosts(self, hosts: Mapping[str, str]) -> None:
        self._refuse("change its names")

    def _refuse(self, what: str) -> NoReturn:
        raise MissingCapability(f"{self._name} is a container of somebody else: nobody may {what}")


async def _asked(do: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """What the engine answers, in a thread.

    Raises:
        OSError: it refuses.
    """
    try:
        return await asyncio.to_thread(do, *args, **more)
    except EngineFailed as error:
        raise OSError(str(error)) from None


def _at(rule: Rule, blocks: Mapping[str, str]) -> Rule:
    """The same, for the address that its source has now; that of clients stays."""
    if rule.source == CLIENT:
        return rule
    return msgspec.structs.replace(rule, block=blocks[rule.source])
