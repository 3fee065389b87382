"""A container that somebody else made, as a machine: its one process, and the network it has.

Signals go through the engine, which then leaves an ended container as it is, whatever its restart
policy. Where cuts or losses are needed, an agent in a container beside it has the same network, as
long as that lasts: the engine gives a container that starts again another one, so the agent is
replaced and its rules are put again, with the addresses that all machines have then.
"""

import asyncio
import signal as signals
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar

from maxq.harness.contracts.environment import ProcessStatus
from maxq.harness.environments.attached.foreign_machine import ForeignMachine
from maxq.harness.environments.engine.client import Engine, EngineFailed, Standing

LOG = "node.log"  # what its process wrote, in its folder
LOG_LINES = 20_000
BY_SIGNAL = 128  # an exit code beyond is that of a process that a signal ended, by this much more
RESTARTED = -1  # the exit code of a process that others have started again: nobody knows it
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


class ForeignContainer(ForeignMachine):
    """A container.

    Args:
        engine: that has it.
        name: of its node.
        standing: how it was found.
        address: of its node.
        folder: of the run, where its log goes.
        started: called once its process has been started again, to have its agent replaced.
        owes: called with whether its process may be taken away from now on.
    """

    whose = "a container of somebody else"

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
        super().__init__(name, address, folder)
        self._engine = engine
        self.standing = standing
        self._started = started
        self._owes = owes

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

    async def get(self, path: str) -> bytes | None:
        """What its process wrote to its output; nothing else."""
        if path != f"{self._folder}/{LOG}":
            return None
        return await _asked(self._engine.log, self.standing.id, LOG_LINES)


async def _asked(do: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """What the engine answers, in a thread.

    Raises:
        OSError: it refuses.
    """
    try:
        return await asyncio.to_thread(do, *args, **more)
    except EngineFailed as error:
        raise OSError(str(error)) from None
