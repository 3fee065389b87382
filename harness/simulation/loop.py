"""The simulated event loop: one loop object a process, all of them over one seeded scheduler.

Stock asyncio (tasks, task groups, timeouts, futures) runs unchanged on `SimLoop`. Since each
process has its own loop, the loop says who is calling: killing a process is a property of its
loop, whose callbacks are simply never run again. A dropped coroutine would run its `finally`
whenever garbage is collected, so what a dead loop leaves is kept to the end of the run, and no
garbage is collected while the scheduler runs.

Time is virtual and counted in ns; it moves only when nothing can run now. Ties are broken by the
order of scheduling. A paused process runs nothing: what comes due for it is held, in order, until
it goes on. Tasks and futures hash to their numbers in the run, because task groups and
`asyncio.wait` keep them in sets, and the stock hash is a memory address.
"""

import asyncio
import contextvars
import gc
import heapq
import warnings
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, Never, Protocol, TypeVar, cast

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.steps import Steps
from maxq.reference.records import InvariantViolation, invariant

T = TypeVar("T")
STEPS_MAX = 500_000_000
PRUNED_MIN = 1000  # tasks of a loop before it looks which of them are done
# Doors of a real loop to threads, to the machine and to its names: none may open here.
REAL_ONLY = frozenset({
    "add_reader", "add_signal_handler", "add_writer", "connect_accepted_socket",
    "connect_read_pipe", "connect_write_pipe", "create_datagram_endpoint",
    "create_unix_connection", "create_unix_server", "getaddrinfo", "getnameinfo",
    "run_in_executor", "sendfile", "set_default_executor", "sock_accept", "sock_connect",
    "sock_recv", "sock_sendall", "start_tls", "subprocess_exec", "subprocess_shell",
})  # fmt: skip


class Sockets(Protocol):
    """What a process needs of its machine's network (`maxq.harness.simulation.network.Stack`)."""

    name: str

    async def dial(self, loop: "SimLoop", factory: Any, host: str, port: int, local: str) -> Any:
        """Connect a process, as `asyncio.loop.create_connection`."""

    def listen(self, loop: "SimLoop", factory: Any, host: str, port: int) -> Any:
        """Accept connections for a process, as `asyncio.loop.create_server`."""

    def add_address(self, address: str) -> None:
        """Have one address more."""

    def hold(self, end: Any) -> None:
        """Know a connection, until both its process and its kernel are done with it."""

    def process_died(self, loop: "SimLoop") -> None:
        """Reset its connections, free its ports."""


class Deadlock(Exception):
    """Nothing is left to run, and what the run waits for has not happened."""


class SimTask(asyncio.Task[T]):
    """A task whose hash is its number in the run."""

    number: int = 0

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimFuture(asyncio.Future[T]):
    """A future whose hash is its number in the run."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimHandle:
    """A callback of a loop that is to run: what asyncio knows as a handle, for less.

    Without a context it runs in whichever is current: kernels know of none.
    """

    __slots__ = ("_when_ns", "args", "callback", "context", "gone", "loop")

    def __init__(
        self,
        loop: "SimLoop",
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        when_ns: int = 0,
    ) -> None:
        self.loop = loop
        self.callback = callback
        self.args = args
        self.context = context
        self.gone = False
        self._when_ns = when_ns

    def cancel(self) -> None:
        """Do not run; a cancelled timer is dropped when its time comes."""
        self.gone = True
        self.args = ()
        self.callback = _nothing

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        """When it is due, in seconds of the loop's time."""
        return self._when_ns / 1e9


def _nothing() -> None:
    pass


class Scheduler:
    """Virtual time and the order in which everything happens.

    Args:
        seed: of all draws.
        steps: records every step; None: nothing is recorded.
    """

    def __init__(self, seed: int | str, *, steps: Steps | None = None) -> None:
        self.seed = seed
        self.draws = Draws(seed)
        self.steps = steps
        self.now_ns = 0
        self.last_number = 0  # of a task or a future
        self.loops: list[SimLoop] = []
        self.closed = False
        self._running: asyncio.AbstractEventLoop | None = None  # as asyncio knows it, during a run
        self._sequence = 0
        self._later: list[tuple[int, int, SimHandle]] = []
        self._ready: deque[SimHandle] = deque()

    def rng(self, name: str) -> Random:
        """Randomness for one purpose; the same name gives the same numbers."""
        return Random(f"{self.seed}/{name}")

    def soon(self, handle: SimHandle) -> None:
        self._ready.append(handle)

    def at(self, when_ns: int, handle: SimHandle) -> None:
        self._sequence += 1
        heapq.heappush(self._later, (max(when_ns, self.now_ns), self._sequence, handle))

    def run_until(self, done: Callable[[], bool]) -> None:
        """Run until `done`. No garbage is collected meanwhile: a finalizer is a step that no
        schedule has scheduled.

        Raises:
            Deadlock: nothing is left to run.
        """
        before, collects = events._get_running_loop(), gc.isenabled()
        self._running = before
        gc.disable()
        try:
            self._run_until(done)
        finally:
            events._set_running_loop(before)
            if collects:
                gc.enable()

    def enter(self, loop: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop | None:
        """Make a loop the running one; returns the one before. Asyncio asks the kernel for the
        process at each change, so it is told of real ones only."""
        before = self._running
        if loop is not before:
            self._running = loop
            events._set_running_loop(loop)
        return before

    def _run_until(self, done: Callable[[], bool]) -> None:
        ready, later = self._ready, self._later
        for _ in range(STEPS_MAX):
            if done():
                return
            if ready:
                handle = ready.popleft()
                if not handle.gone:
                    handle.loop.run(handle)
                continue
            if not later:
                raise Deadlock(f"nothing left to run at {self.now_ns} ns")
            self.now_ns = now_ns = later[0][0]
            while later and later[0][0] == now_ns:
                ready.append(heapq.heappop(later)[2])
        raise Deadlock(f"more than {STEPS_MAX} steps")

    def close(self) -> None:
        """End the run: nothing runs any more, and every coroutine left is closed in order."""
        for loop in self.loops:
            loop.alive = False
        self.closed = True
        with warnings.catch_warnings():
            # A process killed before a task's first step leaves coroutines that never ran, and
            # whatever was to run still may be the last to hold one.
            warnings.simplefilter("ignore", RuntimeWarning)
            for loop in self.loops:
                loop.bury()
            self._later.clear()
            self._ready.clear()


class SimLoop:
    """The event loop of one simulated process; what it lacks, node code must not use.

    Not a subclass of asyncio's abstract loop: a call that is not part of the contract then fails
    by name (`AttributeError`), not with a bare NotImplementedError.
    """

    def __init__(self, scheduler: Scheduler, name: str, stack: Sockets) -> None:
        # This loop, under the type that asyncio's signatures ask for.
        self.stock = cast(asyncio.AbstractEventLoop, self)
        self.scheduler = scheduler
        self.name = name
        self.number = len(scheduler.loops)  # in the run
        self.stack = stack  # of its machine
        self.alive = True
        self.held: deque[SimHandle] | None = None  # while it is paused: what came due
        self.failures: list[BaseException] = []
        self.watch: Callable[[], None] | None = None  # called after every step of the process
        # Called with what failed where no task awaits it, as by asyncio's handler.
        self.on_failure: Callable[[BaseException], None] | None = None
        self._tasks: list[SimTask[Any]] = []
        self._prune_at = PRUNED_MIN
        # What came due after its death: dropped, it might be the last to hold a generator or a
        # future, whose finalizer would run.
        self._never_run: list[SimHandle] = []
        scheduler.loops.append(self)

    def __getattr__(self, name: str) -> Never:
        if name in REAL_ONLY:
            raise InvariantViolation(f"not in a simulated world: {name} of an event loop")
        raise AttributeError(f"no {name} in a simulated event loop")

    # Time and callbacks.

    def time(self) -> float:
        return self.scheduler.now_ns / 1e9

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle = SimHandle(self, callback, args, context)
        if self.alive:
            self.scheduler.soon(handle)
        return handle  # type: ignore[return-value] # all that asyncio asks of one

    call_soon_threadsafe = call_soon  # there is one thread

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._call_at_ns(self.scheduler.now_ns + round(delay * 1e9), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._call_at_ns(round(when * 1e9), callback, args, context)

    def _call_at_ns(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        handle = SimHandle(self, callback, args, context, when_ns)
        if self.alive:
            self.scheduler.at(when_ns, handle)
        return handle  # type: ignore[return-value] # all that asyncio asks of one

    # Futures and tasks.

    def create_future(self) -> asyncio.Future[Any]:
        self.scheduler.last_number += 1
        future: SimFuture[Any] = SimFuture(loop=self.stock)
        future.number = self.scheduler.last_number
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        self.scheduler.last_number += 1
        number = self.scheduler.last_number
        # Scheduling the first step hashes the task, so the number must be there before: it is
        # set on the class for the length of the constructor.
        SimTask.number = number
        task: SimTask[T] = SimTask(coro, loop=self.stock, name=str(name or number), context=context)
        task.number = number
        self._tasks.append(task)
        if len(self._tasks) > self._prune_at:
            self._tasks = [t for t in self._tasks if not t.done()]
            self._prune_at = 2 * len(self._tasks) + PRUNED_MIN
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return False  # a dead loop accepts callbacks and drops them, as a dead process would

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.scheduler.closed:
            return  # a future of an ended run is collected: its exception is asked for no more
        error = context.get("exception")
        failure = error if isinstance(error, BaseException) else RuntimeError(str(context))
        self.failures.append(failure)
        if self.on_failure is not None:
            self.on_failure(failure)
        elif isinstance(failure, InvariantViolation):
            raise failure

    # The network.

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None,
                                *, local_addr: tuple[str, int] = ("", 0),
                                **options: Any) -> Any:  # fmt: skip
        invariant(not options, "a simulated dial takes host, port, local_addr", options=options)
        return await self.stack.dial(self, protocol_factory, str(host), int(port), local_addr[0])

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None,
                            **options: Any) -> Any:  # fmt: skip
        invariant(not options, "a simulated listener takes host and port only", options=options)
        return self.stack.listen(self, protocol_factory, str(host), int(port))

    # What is done to the process from outside.

    def run(self, handle: SimHandle) -> None:
        """Run a callback of this process now; hold it if the process is paused."""
        if self.held is not None:
            self.held.append(handle)
        elif not self.alive:
            self._never_run.append(handle)
        else:
            self._call(handle.callback, handle.args, handle.context)

    def interrupt(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback of this process at once, as a kernel does when something has arrived."""
        before = self.scheduler.enter(self.stock)
        if self.held is None and self.alive:
            self._call(callback, args)
        else:
            self.run(SimHandle(self, callback, args, None))
        self.scheduler.enter(before)

    def _call(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None = None,
    ) -> None:
        """A step of this process; without a context it runs in whichever is current."""
        scheduler = self.scheduler
        if scheduler.steps is not None:
            scheduler.steps.add(scheduler.now_ns, self.number, callback)
        scheduler.enter(self.stock)
        try:
            if context is None:
                callback(*args)
            else:
                context.run(callback, *args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"exception": error})
        if self.watch is not None and self.alive:
            self.watch()

    def pause(self) -> None:
        """Hold the process: it runs nothing, and everything else goes on."""
        if self.held is None and self.alive:
            self.held = deque()

    def resume(self) -> None:
        """Let it go on with all that came due meanwhile, in order."""
        held, self.held = self.held, None
        for handle in held or ():
            self.scheduler.soon(handle)

    def kill(self) -> None:
        """End the process at once: nothing of it ever runs again, its peers see a reset."""
        if self.alive:
            self.end()
            self.stack.process_died(self)

    def end(self) -> None:
        """Run nothing of the process again; no peer is informed."""
        self.alive = False
        self._never_run.extend(self.held or ())
        self.held = None

    def bury(self) -> None:
        """Close what is left, once the whole run is over and nothing can observe it."""
        for task in self._tasks:
            if not task.done():
                _close(task)
        self._tasks.clear()
        self._never_run.clear()


class Kernel(SimLoop):
    """What runs for no process: the part of the network that belongs to no machine. It has no
    stack."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler, "kernel", cast(Sockets, None))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.scheduler.closed:
            raise cast(BaseException, context["exception"])


def _close(task: SimTask[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coro = task.get_coro()
    try:
        if coro is not None:
            coro.close()
    except (RuntimeError, BaseExceptionGroup):
        pass  # it awaits in its `finally`, or a task group wraps the exit
