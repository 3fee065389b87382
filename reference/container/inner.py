"""One broker of a container: it starts, lives and ends alone.

It is the broker that runs alone elsewhere, in a task of its own. What goes wrong in it ends it and
nothing else: a task that fails, a store that fails, and a callback that no task awaits, which is
known by the context that it runs in (`maxq.reference.node.OWNER`). RocketMQ's container knows no
such end; there a broker lives until it is removed, or its process dies.

A broker has connections of its own to name servers and other brokers. RocketMQ's share one for each
address: when a call of one broker times out the connection closes, and its neighbours are
unlisted with it. Shared are the event loop, the disk's thread, and the process.

Source: RIP-31; RocketMQ ``InnerBrokerController``; docs/spec/acting-master.md 2.
"""

import asyncio
import errno
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from maxq.reference.broker.server import Broker, Neighbours
from maxq.reference.config import BrokerConfig
from maxq.reference.container.files import BrokerFile
from maxq.reference.container.logs import NamedHost
from maxq.reference.container.registry import INIT_FAILED, START_FAILED
from maxq.reference.host import Host
from maxq.reference.node import OWNER, describe, is_our_bug
from maxq.reference.records import some

_OF_PORTS = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES})


@dataclass(frozen=True, slots=True)
class BrokerBootHook:
    """What somebody else does at the start of each broker of a container (RocketMQ's
    ``BrokerBootHook``). A failure of either ends the broker, and its addition fails.

    Args:
        name: for messages.
        before_start: called when the broker is made, and nothing of it runs.
        after_start: called when it answers requests; it may not be registered yet.
    """

    name: str
    before_start: Callable[[Broker, BrokerConfig], None] = lambda broker, config: None
    after_start: Callable[[Broker, BrokerConfig], None] = lambda broker, config: None


class StartFailed(Exception):
    """A broker did not start; says file, line and why.

    Args:
        said: where and why.
        remark: the same behind what RocketMQ's container says.
    """

    def __init__(self, said: str, remark: str) -> None:
        super().__init__(said)
        self.remark = remark


class HookFailed(Exception):
    """A `BrokerBootHook` raised."""


class Inner:
    """One broker of a container.

    Args:
        file: its settings.
        host: the machine.
        hooks: called at its start.
        mutant: the name of a seeded bug.
        neighbours: the container's other brokers, as this one sees them.
        on_end: called when nothing of it is left, however it ended.
    """

    def __init__(
        self,
        file: BrokerFile,
        host: Host,
        *,
        hooks: Sequence[BrokerBootHook] = (),
        mutant: str = "",
        neighbours: Neighbours,
        on_end: Callable[["Inner"], None],
    ) -> None:
        self.file = file
        self.name = file.member.identity.canonical
        self._host = host
        self._hooks = hooks
        self._on_end = on_end
        named = NamedHost(host, self.name, isolated=file.config.isolate_log_enable)
        self.broker = Broker(file.config, named, mutant=mutant, neighbours=neighbours)
        self._task: asyncio.Task[None] | None = None
        self._ending = False
        self.failure: BaseException | None = None
        self._placing: asyncio.Task[None] | None = None
        self._started = asyncio.Event()  # or ended before that
        self._placed = asyncio.Event()  # the same
        self._ended = asyncio.Event()

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Start it; a failure of it is none of the group's."""
        self._group = group
        self._task = group.create_task(self._run())
        # A task that is cancelled before its first step never runs, not even its `finally`.
        self._task.add_done_callback(lambda task: self._on_over())

    async def started(self) -> None:
        """Return once it answers requests.

        Raises:
            StartFailed: it ended before; nothing of it is left.
        """
        await self._started.wait()
        await self._raise_failure()

    async def placed(self) -> None:
        """Return once name servers list it, or its group has to take it back first.

        Raises:
            StartFailed: it failed before; nothing of it is left.
        """
        await self._placed.wait()
        await self._raise_failure()

    async def _raise_failure(self) -> None:
        if self.failure is not None:
            await self._ended.wait()
            raise self._start_failed(self.failure)

    async def end(self) -> None:
        """Stop it, and return when its ports are free and its store is nobody's."""
        self.cancel()
        await self._ended.wait()

    def cancel(self) -> None:
        """Begin to stop it, once."""
        if not self._ending:
            self._ending = True
            some(self._task, "a broker that ends has begun").cancel()

    def fail(self, error: BaseException) -> None:
        """End it: something in it that no task awaits has failed."""
        self.failure = self.failure or error
        self.cancel()

    async def _run(self) -> None:
        OWNER.set(self.fail)
        try:
            self._call_hooks("before_start")
            await self.broker.run(self._on_ready)
        except asyncio.CancelledError:
            if not self._ending:  # the container ends
                raise
        except Exception as error:
            self.failure = self.failure or error

    def _on_over(self) -> None:
        """Nothing of it is left."""
        if self.failure is not None:
            self._log_failure(self.failure)
        if self._placing is not None:
            self._placing.cancel()
        self._on_end(self)
        for event in (self._ended, self._started, self._placed):
            event.set()

    def _on_ready(self) -> None:
        self._call_hooks("after_start")
        self._started.set()
        self._placing = self._group.create_task(self._place())

    async def _place(self) -> None:
        await some(self.broker.membership, "a broker that serves has its membership").placed()
        self._placed.set()

    def _call_hooks(self, moment: str) -> None:
        for hook in self._hooks:
            try:
                getattr(hook, moment)(self.broker, self.file.config)
            except Exception as error:
                raise HookFailed(f"hook {hook.name}: {describe(error)}") from error

    def _log_failure(self, error: BaseException) -> None:
        story = "".join(traceback.format_exception(error)) if is_our_bug(error) else ""
        self._host.log(
            "container.broker.failed", broker=self.name, why=describe(error), story=story
        )

    def _start_failed(self, error: BaseException) -> StartFailed:
        first = error
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        key, failed = "", INIT_FAILED.format(self.file.member)
        if isinstance(first, HookFailed):
            failed = START_FAILED
        elif isinstance(first, OSError) and first.errno in _OF_PORTS:
            key, failed = "listenPort", START_FAILED
        elif isinstance(first, BlockingIOError):
            key, failed = "storePathRootDir", START_FAILED
        said = f"{self.file.where(key)}: {describe(error)}"
        return StartFailed(said, f"{failed}: {said}")
