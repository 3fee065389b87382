"""What every node's shell shares: a table of request handlers, periodic work, and a clean stop.

Node code is ordinary asyncio code that reaches the world through the running loop and its `Host`.
Of asyncio it uses what the simulated loop offers: time, timers, futures, tasks in groups,
timeouts, connections and servers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from maxq.reference.records import InvariantViolation
from maxq.reference.rpc import Connection, Handler, Reply, refuse
from maxq.reference.wire.frame import Frame

T = TypeVar("T")


class Node(Protocol):
    """A namesrv, controller or broker."""

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled; `ready` is called once requests are answered."""
        ...


# Who answers for what fails in a callback that no task awaits; None: the whole process.
OWNER: ContextVar[Callable[[BaseException], None] | None] = ContextVar("owner", default=None)


def owner_of(context: Mapping[str, object]) -> Callable[[BaseException], None] | None:
    """Who answers for a callback that failed, of what asyncio's exception handler is given."""
    handle = context.get("handle")
    # What a protocol raises is reported from within; a handle's failure after it was left.
    of = getattr(handle, "_context", None)
    return OWNER.get() if of is None else of.get(OWNER)


def is_our_bug(error: BaseException) -> bool:
    """Whether an `InvariantViolation` is among what went wrong, also inside a task group."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_our_bug(e) for e in error.exceptions)
    return isinstance(error, InvariantViolation)


def describe(error: BaseException) -> str:
    """One line for an error, also for one inside a task group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(e) for e in error.exceptions)
    return f"{type(error).__name__}: {error}"


class Joined:
    """Nodes of one process, as a name server and its controller: ready once all are, and ended as
    soon as one of them ends."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled. Raises what made the first of them end."""
        waiting = len(self.nodes)

        def one_is_ready() -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                ready()

        async with asyncio.TaskGroup() as group:
            for node in self.nodes:
                group.create_task(node.run(one_is_ready))


def now_ns() -> int:
    """This node's monotonic clock."""
    return round(asyncio.get_running_loop().time() * 1e9)


def dispatcher(handlers: Mapping[int, Handler]) -> Handler:
    """Answer each request by its code; what is not in the table is refused by the protocol's own
    code. A header that cannot be read becomes a SYSTEM_ERROR, as every failure of a handler."""

    def handle(request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
        return handlers.get(request.code, refuse)(request, connection)

    return handle


async def as_task_of(group: asyncio.TaskGroup, work: Coroutine[Any, Any, T]) -> T | None:
    """Have work done in another task group, whose failure a failure of it is; None if it failed, or
    that group has ended."""
    try:
        task = group.create_task(work)
    except RuntimeError:  # it is ending
        work.close()
        return None
    done: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def finish(task: asyncio.Task[T]) -> None:
        if not done.done():
            failed = task.cancelled() or task.exception() is not None
            done.set_result(None if failed else task.result())

    task.add_done_callback(finish)
    return await done


async def every(period_s: float, work: Callable[[], Awaitable[None] | None]) -> None:
    """Do `work` now and then every `period_s` seconds, until cancelled. A failure ends it."""
    while True:
        done = work()
        if done is not None:
            await done
        await asyncio.sleep(period_s)
