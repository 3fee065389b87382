"""The simulated event loop: one loop object a process, all of them over one seeded scheduler.

Stock asyncio (tasks, task groups, timeouts, futures) runs unchanged on `SimLoop`. Since each
process has its own loop, the loop says who is calling: killing a process is a property of its
loop, whose callbacks are simply never run again. A dropped coroutine would run its `finally`
whenever garbage is collected, so the tasks of dead loops are kept to the end of the run.

Time is virtual and counted in ns; it moves only when nothing can run now. Ties are broken by the
order of scheduling. A paused process runs nothing: what comes due for it is held, in order, until
it goes on. A task hashes to its number in the run, because task groups keep tasks in
sets, and the stock hash is a memory address.
"""

import asyncio
import contextvars
import heapq
import warnings
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import TYPE_CHECKING, Any, Never, TypeVar, cast

from reference.records import InvariantViolation, invariant

if TYPE_CHECKING:
    from harness.simulation.network import Stack

T = TypeVar("T")
STEPS_MAX = 500_000_000


class Deadlock(Exception):
    """Nothing is left to run, and what the run waits for has not happened."""


class SimTask(asyncio.Task[T]):
    """A task whose hash is its number in the run."""

    number: int = 0

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class Scheduler:
    """Virtual time and the order in which everything happens."""

    def __init__(self, seed: int | str) -> None:
        self.seed = seed
        self.now_ns = 0
        self.task_count = 0
        self.loops: list[SimLoop] = []
        self._sequence = 0
        self._later: list[tuple[int, int, asyncio.Handle, SimLoop]] = []
        self._ready: deque[tuple[asyncio.Handle, SimLoop]] = deque()

    def rng(self, name: str) -> Random:
        """The stream of one component, so that removing one leaves the others as they were."""
        return Random(f"{self.seed}/{name}")

    def soon(self, handle: asyncio.Handle, loop: "SimLoop") -> None:
        self._ready.append((handle, loop))

    def at(self, when_ns: int, handle: asyncio.Handle, loop: "SimLoop") -> None:
        self._sequence += 1
        heapq.heappush(self._later, (max(when_ns, self.now_ns), self._sequence, handle, loop))

    def run(self, handle: asyncio.Handle, loop: "SimLoop") -> None:
        """Run a callback of a process now; hold it for one that is paused."""
        if loop.held is not None:
            loop.held.append(handle)
        elif loop.alive and not handle.cancelled():
            events._set_running_loop(loop.stock)
            handle._run()
            if loop.watch is not None and loop.alive:
                loop.watch()

    def run_until(self, done: Callable[[], bool]) -> None:
        """Run until `done`.

        Raises:
            Deadlock: nothing is left to run.
        """
        ready, later = self._ready, self._later
        before = events._get_running_loop()
        try:
            for _ in range(STEPS_MAX):
                if done():
                    return
                if not ready:
                    if not later:
                        raise Deadlock(f"nothing left to run at {self.now_ns} ns")
                    self.now_ns = later[0][0]
                    while later and later[0][0] == self.now_ns:
                        _, _, handle, loop = heapq.heappop(later)
                        ready.append((handle, loop))
                    continue
                self.run(*ready.popleft())
            raise Deadlock(f"more than {STEPS_MAX} steps")
        finally:
            events._set_running_loop(before)

    def close(self) -> None:
        """End the run: nothing runs any more, and every coroutine left is closed in order."""
        for loop in self.loops:
            loop.alive = False
        for loop in self.loops:
            loop.bury()
        self._later.clear()
        self._ready.clear()


class SimLoop:
    """The event loop of one simulated process; what it lacks, node code must not use.

    Not a subclass of asyncio's abstract loop: a call that is not part of the contract then fails
    by name (`AttributeError`), not with a bare NotImplementedError.
    """

    def __init__(self, scheduler: Scheduler, name: str, stack: "Stack") -> None:
        self.scheduler = scheduler
        self.name = name
        self.stack = stack  # of its machine
        self.alive = True
        self.held: deque[asyncio.Handle] | None = None  # while it is paused: what came due
        self.failures: list[BaseException] = []
        self.watch: Callable[[], None] | None = None  # called after every step of the process
        self._tasks: list[SimTask[Any]] = []
        scheduler.loops.append(self)

    @property
    def stock(self) -> asyncio.AbstractEventLoop:
        """This loop, under the type that asyncio's signatures ask for."""
        return cast(asyncio.AbstractEventLoop, self)

    # Time and callbacks.

    def time(self) -> float:
        return self.scheduler.now_ns / 1e9

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self.stock, context)
        if self.alive:
            self.scheduler.soon(handle, self)
        return handle

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
        handle = asyncio.TimerHandle(when_ns / 1e9, callback, args, self.stock, context)
        if self.alive:
            self.scheduler.at(when_ns, handle, self)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # a cancelled timer is dropped when its time comes

    # Futures and tasks.

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.stock)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        self.scheduler.task_count += 1
        number = self.scheduler.task_count
        # Scheduling the first step hashes the task, so the number must be there before: it is
        # set on the class for the length of the constructor.
        SimTask.number = number
        task: SimTask[T] = SimTask(coro, loop=self.stock, name=str(name or number), context=context)
        task.number = number
        self._tasks.append(task)
        if len(self._tasks) > 1000 and number % 500 == 0:
            self._tasks = [t for t in self._tasks if not t.done()]
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return False  # a dead loop accepts callbacks and drops them, as a dead process would

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        failure = error if isinstance(error, BaseException) else RuntimeError(str(context))
        self.failures.append(failure)
        if isinstance(failure, InvariantViolation):
            raise failure

    # The network.

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None,
                                *, local_addr: tuple[str, int] = ("", 0),
                                **options: Any) -> Any:  # fmt: skip
        invariant(not options, "a simulated dial takes host, port, local_addr", options=options)
        network = self.stack.network
        return await network.dial(self, protocol_factory, str(host), int(port), local=local_addr[0])

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None,
                            **options: Any) -> Any:  # fmt: skip
        invariant(not options, "a simulated listener takes host and port only", options=options)
        return self.stack.network.listen(self, protocol_factory, str(host), int(port))

    # What is done to the process from outside.

    def interrupt(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback of this process at once, as a kernel does when something has arrived."""
        before = events._get_running_loop()
        self.scheduler.run(asyncio.Handle(callback, args, self.stock), self)
        events._set_running_loop(before)

    def pause(self) -> None:
        """Hold the process: it runs nothing, and everything else goes on."""
        if self.held is None and self.alive:
            self.held = deque()

    def resume(self) -> None:
        """Let it go on with all that came due meanwhile, in order."""
        held, self.held = self.held, None
        for handle in held or ():
            self.scheduler.soon(handle, self)

    def kill(self) -> None:
        """End the process at once: nothing of it ever runs again, its peers see a reset."""
        self.alive, self.held = False, None
        self.stack.network.process_died(self)

    def bury(self) -> None:
        """Close what is left, once the whole run is over and nothing can observe it."""
        with warnings.catch_warnings():
            # A process killed before a task's first step leaves coroutines that never ran.
            warnings.simplefilter("ignore", RuntimeWarning)
            for task in self._tasks:
                if not task.done():
                    _close(task)
            self._tasks.clear()


class Kernel(SimLoop):
    """What runs for no process: the part of the network that is nobody's. It has no stack."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler, "kernel", cast("Stack", None))

    def call_exception_handler(self, context: dict[str, Any]) -> Never:
        raise cast(BaseException, context["exception"])


def _close(task: SimTask[Any]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coro = task.get_coro()
    try:
        if coro is not None:
            coro.close()
    except (RuntimeError, BaseExceptionGroup):
        pass  # it awaits in its `finally`, or a task group wraps the exit
