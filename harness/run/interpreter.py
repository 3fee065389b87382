"""The interpreter: performs what a generator asks for, and records what happened.

One scheduler and one worker task a thread. The scheduler alone asks and updates the generator and
writes the history, so their order is one order. It asks for the next operation, waits for its time
or for a completion, whichever comes first, and hands it to the worker of its thread; the worker's
client performs it. An invocation is recorded before its client knows of it and a completion after
the client has answered, so a recorded interval always covers the real one.

The rules are those of docs/spec/history-format.md 2 to 6: a thread whose client says `info` goes on
as process p + concurrency with a fresh client; where no client can be opened, operations `fail`,
since nothing was attempted; the nemesis never retires and all of its operations are `info`.

Runs on whatever loop is running, real or simulated. For the simulated one it uses only what that
offers: time, timers, futures, tasks, task groups and timeouts of asyncio, nothing else.

Times are nanoseconds since the start of the run. Source: jepsen-io/jepsen,
jepsen/generator/interpreter.clj.
"""

import asyncio
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from random import Random
from typing import Any, Protocol

import msgspec

from maxq.harness.contracts.error_classes import plain
from maxq.harness.contracts.generator import PENDING, Context, Sleep, Special, Step, start_context
from maxq.harness.contracts.outcome import Client, Fail, Info, Ok, Outcome
from maxq.harness.generators.lift import Source, lift
from maxq.harness.generators.transform import check
from maxq.histories.op import NEMESIS, Op, OpType

TICK_NS = 500_000_000  # half of what recorders are promised, so that a late wake-up keeps it
PENDING_POLL_NS = 10_000_000  # a pending generator may wait for a time that it cannot name
WAIT_NS_MIN = 1_000  # below the resolution of a timer, a wait might not move time at all
BURST_MAX = 64  # operations begun in a row before the loop has its turn
OPEN_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 5.0
NO_CLIENT_PAUSE_S = 0.01  # or a generator without delay would fail as fast as it can be asked
TRACE_FRAMES_MAX = 10


class Recorder(Protocol):
    """Where the history goes."""

    def append(self, op: Op) -> Op:
        """Record `op`; return it with its index."""
        ...

    def tick(self, now_ns: int) -> None:
        """Called at least once a second, whatever happens."""
        ...


class TooManyOperations(Exception):
    """The generator asked for more than the run allows."""


async def run(
    source: Source,
    *,
    concurrency: int,
    client: Callable[[int], Client],
    nemesis: Client | None,
    recorder: Recorder,
    rng: Random,
    now_ns: Callable[[], int],
    say: Callable[[str], None] = lambda _: None,
    answer_ns_max: int | None = None,
    ops_max: int | None = None,
) -> None:
    """Perform everything that a generator asks for.

    Returns when the generator is exhausted and all operations have completed. When cancelled, it
    leaves what is outstanding open in the history. Clients are closed in any case.

    Args:
        source: the generator, or what stands for one.
        concurrency: how many client threads: 0 … concurrency-1.
        client: thread -> a fresh client; called again whenever a process retires.
        nemesis: performs the operations of the nemesis. Without one they complete with an error.
        recorder: gets every event, in order.
        rng: the stream of randomness that generators draw from.
        now_ns: time since the start of the run, on the clock of the running loop.
        say: where `log` goes, and what goes wrong outside of operations.
        answer_ns_max: how long a client may take, within a second, before its operation is `info`.
            None: for ever.
        ops_max: how many invocations the run may have.

    Raises:
        TooManyOperations: more than `ops_max`.
        IllFormed: the generator asked for what cannot be performed.
        Exception: whatever the generator or the recorder raises.
    """

    ctx = start_context(concurrency, rng)
    workers = [Worker(thread, partial(client, thread), say) for thread in range(concurrency)]
    workers.append(Worker(NEMESIS, partial(given, nemesis), say))
    scheduler = Scheduler(source, ctx, workers, recorder, now_ns, answer_ns_max, ops_max)
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        for worker in workers:
            worker.task = group.create_task(worker.work(scheduler.finish))
        try:
            await scheduler.schedule()
        except Exception as error:
            # Raised after the group, which would wrap it, and only when all clients are closed.
            failure = error
            for worker in workers:
                worker.task.cancel()
        else:
            for worker in workers:
                worker.give(None)
    if failure is not None:
        raise failure


def given(nemesis: Client | None) -> Client:
    """The nemesis, if there is one."""
    if nemesis is None:
        raise LookupError("this run has no nemesis")
    return nemesis


Job = Op | Special
Finish = Callable[["Worker", Job, Outcome | None], None]


class Worker:
    """One thread: performs one job at a time, with a client of its own."""

    task: asyncio.Task[None]

    def __init__(
        self, thread: int | str, make: Callable[[], Client], say: Callable[[str], None]
    ) -> None:
        self.thread = thread
        self.make = make
        self.say = say
        self.client: Client | None = None
        self.since_ns = 0  # when the job was given
        self.invoking = False  # inside of the client's invoke
        self.overdue = False  # cancelled because that took too long
        self._mail: list[Job | None] = []  # at most one; None: go home
        self._wake: asyncio.Future[None] | None = None

    def give(self, job: Job | None) -> None:
        """Hand over a job; None ends the worker."""
        self._mail.append(job)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def work(self, finish: Finish) -> None:
        """Perform jobs until there is a None."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                if not self._mail:
                    self._wake = loop.create_future()
                    await self._wake
                job = self._mail.pop()
                if job is None:
                    return
                if not isinstance(job, Op):
                    await self._special(job)
                    finish(self, job, None)
                    continue
                outcome = await self._invoke(job)
                finish(self, job, outcome)
                if retires(job, outcome):
                    await self._close()
        finally:
            await self._close()

    async def _special(self, job: Special) -> None:
        if isinstance(job, Sleep):
            await asyncio.sleep(job.duration_ns / 1e9)
        else:
            self.say(job.message)

    async def _invoke(self, op: Op) -> Outcome:
        client = self.client or await self._open()
        if isinstance(client, Fail):
            return client
        self.invoking = True
        try:
            outcome = await client.invoke(op)
        except asyncio.CancelledError as error:
            if self.overdue and self.task.cancelling() == 1:
                return Info("indeterminate: no answer in time")
            self._unless_cancelled(error)
            return Info("indeterminate: cancelled inside of the client")
        except Exception as error:
            return crash(error)
        finally:
            self.invoking = False
            if self.overdue:
                self.overdue = False
                self.task.uncancel()
        if isinstance(outcome, Ok | Fail | Info):
            return outcome
        answered = plain(repr(outcome))
        return Info(f"indeterminate: the client answered {answered}, which is not an outcome")

    async def _open(self) -> Client | Fail:
        """A fresh open client; if there can be none, what the operation completes with."""
        try:
            client = self.client = self.make()
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await client.open()
            return client
        except (Exception, asyncio.CancelledError) as error:
            self._unless_cancelled(error)
            if self.thread == NEMESIS:
                self.client = None  # there is only this one, to be opened again next time
            await self._close()
            await asyncio.sleep(NO_CLIENT_PAUSE_S)
            return Fail(["no-client", described(error)])

    async def _close(self) -> None:
        client, self.client = self.client, None
        if client is None:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await client.close()
        except (Exception, asyncio.CancelledError) as error:
            self._unless_cancelled(error)
            self.say(f"client of thread {self.thread} not closed: {described(error)}")

    def _unless_cancelled(self, error: BaseException) -> None:
        """Raise `error` again if it cancels this worker.

        Otherwise the client waited for something that was cancelled. Were that to pass, the worker
        would end in silence, and the run would wait for it for ever.
        """
        if isinstance(error, asyncio.CancelledError) and self.task.cancelling():
            raise error


class Scheduler:
    """Asks the generator, hands out operations, collects completions, writes the history."""

    def __init__(
        self,
        source: Source,
        ctx: Context,
        workers: list[Worker],
        recorder: Recorder,
        now_ns: Callable[[], int],
        answer_ns_max: int | None,
        ops_max: int | None,
    ) -> None:
        self._gen = lift(source)
        self._workers = workers  # by position in the roster
        self._recorder = recorder
        self._now_ns = now_ns
        self._answer_ns_max = answer_ns_max
        self._ops_max = ops_max
        self._ops_count = 0
        self._ctx = ctx
        self._tick_ns = 0
        self._done: list[tuple[Worker, Job, Outcome | None]] = []
        self._wake: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def finish(self, worker: Worker, job: Job, outcome: Outcome | None) -> None:
        """A worker has done its job."""
        self._done.append((worker, job, outcome))
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def schedule(self) -> None:
        """Perform everything that the generator asks for."""
        burst = 0
        kept: Step | None = None  # an answer whose time has not come when it was given
        while True:
            changed = bool(self._done)
            ctx = self._collect()
            if kept is not None and (changed or kept[0].time > ctx.time):  # type: ignore[union-attr]
                kept = None  # woken early: the end may have been asked for from outside
            if not ctx.free_bits:
                # Nobody could perform an operation, so there is no use in asking for one.
                await self._wait(ctx.time + TICK_NS)
                burst = 0
                continue
            step = self._gen.op(ctx) if kept is None else kept
            if step is None:
                break
            op, after = step
            if op is PENDING:
                self._gen = after
                await self._wait(ctx.time + PENDING_POLL_NS)
                burst = 0
                continue
            if kept is None:
                check(ctx, op)
            if op.time > ctx.time:
                # Whatever happens until then may change its mind: then forget it, and ask again.
                kept = step
                await self._wait(op.time)
                burst = 0
                continue
            kept, self._gen = None, after
            self._begin(ctx, op)
            burst += 1
            if burst == BURST_MAX:
                await asyncio.sleep(0)
                burst = 0
        while ctx.free_bits != ctx.all_bits:
            await self._wait(ctx.time + TICK_NS)
            ctx = self._collect()

    def _begin(self, ctx: Context, op: Job) -> None:
        worker = self._workers[ctx.roster.positions[op.process]]
        worker.since_ns = ctx.time
        self._ctx = ctx.begun(op.process)
        if isinstance(op, Op):
            self._ops_count += 1
            if self._ops_max is not None and self._ops_count > self._ops_max:
                raise TooManyOperations(f"more than ops_max {self._ops_max}; next was {op}")
            op = self._recorder.append(msgspec.structs.replace(op, time=ctx.time))
            self._gen = self._gen.update(self._ctx, op)
        worker.give(op)

    def _collect(self) -> Context:
        """Record what has been completed; the state of things now."""
        # A clock that goes back would make an operation end before it began.
        ctx = self._ctx = self._ctx.at(max(self._now_ns(), self._ctx.time))
        if self._done:
            done, self._done = self._done, []
            for _worker, job, outcome in done:
                ctx = ctx.ended(job.process)
                if isinstance(job, Op) and outcome is not None:
                    op = self._recorder.append(completed(job, outcome, ctx.time))
                    self._gen = self._gen.update(ctx, op)
                    if retires(job, outcome):
                        ctx = ctx.retired(job.process)
            self._ctx = ctx
        if ctx.time >= self._tick_ns:
            self._tick_ns = ctx.time + TICK_NS
            self._recorder.tick(ctx.time)
            self._hurry(ctx.time)
        return ctx

    def _hurry(self, now_ns: int) -> None:
        """Give up waiting for clients that take too long."""
        if self._answer_ns_max is None:
            return
        for worker in self._workers:
            late = now_ns - worker.since_ns > self._answer_ns_max
            if late and worker.invoking and worker.thread != NEMESIS and not worker.overdue:
                worker.overdue = True
                worker.task.cancel()

    async def _wait(self, until_ns: int) -> None:
        """Wait for a completion, a time, or the next tick."""
        now_ns = self._ctx.time
        wait_ns = max(min(until_ns, self._tick_ns) - now_ns, WAIT_NS_MIN)
        self._wake = wake = self._loop.create_future()
        timer = self._loop.call_later(wait_ns / 1e9, expire, wake)
        try:
            await wake
        finally:
            timer.cancel()
            self._wake = None


def expire(wake: asyncio.Future[None]) -> None:
    """Wake whoever waits, if nothing else did."""
    if not wake.done():
        wake.set_result(None)


def retires(op: Op, outcome: Outcome) -> bool:
    """Whether the process that performed `op` ends with it."""
    if not isinstance(op.process, int):
        return False
    return isinstance(outcome, Info) or bool(outcome.ext and outcome.ext.get("end-process?"))


def completed(op: Op, outcome: Outcome, time: int) -> Op:
    """The completion of `op`."""
    ext = op.ext if outcome.ext is None else {**(op.ext or {}), **outcome.ext}
    kind: OpType = "info"
    value, error = op.value, None
    if isinstance(outcome, Ok):
        kind, value = "ok", outcome.value
    elif isinstance(outcome, Fail):
        kind, error = "fail", outcome.error
    else:
        error = outcome.error
        value = op.value if outcome.value is None else outcome.value
    if not isinstance(op.process, int):
        kind = "info"
    return Op(kind, op.process, op.f, value, error, -1, time, ext)


def crash(error: Exception) -> Info:
    """What is recorded of a client that raised."""
    frames = [
        f"{PurePath(frame.f_code.co_filename).name}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    via = [{"type": type(error).__qualname__, "message": plain(str(error))}]
    ext: dict[str, Any] = {"exception": {"via": via, "trace": frames[-TRACE_FRAMES_MAX:]}}
    return Info(f"indeterminate: {described(error)}", ext=ext)


def described(error: BaseException) -> str:
    """An error in a line: its kind and what it says."""
    return f"{type(error).__name__}: {plain(str(error))}"
