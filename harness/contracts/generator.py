"""Generators, the contract: immutable, lazy sources of operations (`maxq.harness.generators`).

A generator answers two questions, changing nothing in itself:

* ``op(ctx)``: what is the next operation, and what generator comes after it? The answer is an
  operation whose `time` says when it should be invoked (now or later) and whose `process` says by
  whom; or `PENDING`, if none can be had until something else happens; or None, if it is exhausted
  permanently.
* ``update(ctx, event)``: what generator follows, now that `event` (an invocation or completion of
  anybody) has happened?

Asking is free: anyone who asks may throw the answer away, keep the old generator and ask it again
later. The interpreter does so whenever something happens before a future operation's time. A
generator that comes with `PENDING` may be kept or thrown away as well.

Besides operations a generator may ask for a `Special`: a thread sleeps, or a message is logged.
These are not operations: no client sees them, no history holds them, no `update` names them.

Semantics and names follow jepsen-io/generator. Times are nanoseconds since the start of the run.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from random import Random
from typing import Final, Protocol

import msgspec

from maxq.histories.op import NEMESIS, Op, Process

Thread = int | str  # 0 … concurrency-1, or "nemesis"


class Pending(Enum):
    """No operation can be had until something else happens."""

    PENDING = "pending"


PENDING: Final = Pending.PENDING


class Sleep(msgspec.Struct, frozen=True):
    """The thread of `process` does nothing for a while, beginning at `time`."""

    process: Process
    duration_ns: int
    time: int = -1


class Log(msgspec.Struct, frozen=True):
    """`message` goes to the log at `time`; the thread of `process` is busy for that moment."""

    process: Process
    message: str
    time: int = -1


Special = Sleep | Log
Step = tuple[Op | Special | Pending, "Generator"]


class Roster(msgspec.Struct, frozen=True):
    """Who is who: the threads of the run and the process that each runs now.

    A thread's position in `threads` is its bit in the sets of `Context`. All contexts share one
    roster until a process retires, so it may also be compared by identity to see a change.
    """

    threads: tuple[Thread, ...]
    processes: tuple[Process, ...]  # by position
    positions: dict[Process, int]  # process -> position; never changed after it is made

    def replaced(self, position: int, process: Process) -> "Roster":
        """The roster after the thread at `position` has taken over `process`."""
        processes = (*self.processes[:position], process, *self.processes[position + 1 :])
        return Roster(self.threads, processes, {p: i for i, p in enumerate(processes)})

    def bits(self, member: Callable[[Thread], object]) -> int:
        """The set of threads that `member` accepts."""
        return sum(1 << i for i, thread in enumerate(self.threads) if member(thread))


class Context(msgspec.Struct, frozen=True):
    """What a generator may know of the run.

    `workers` maps each thread to the process it runs now, in thread order with the nemesis last;
    `free` are the threads with no operation outstanding, in the same order. `rng` is the run's
    seeded stream: the one thing here that is not a value.

    Both are views of two bit sets over the roster. A context is made for every question, and again
    for every restriction to some threads, so making one must cost next to nothing.
    """

    time: int  # ns since the start of the run
    rng: Random
    roster: Roster
    all_bits: int  # the threads that exist, as far as this generator may know
    free_bits: int  # of those, the ones with no operation outstanding

    @property
    def free(self) -> tuple[Thread, ...]:
        return tuple(self.roster.threads[i] for i in positions(self.free_bits))

    @property
    def workers(self) -> Mapping[Thread, Process]:
        roster = self.roster
        return {roster.threads[i]: roster.processes[i] for i in positions(self.all_bits)}

    def knows(self, process: Process) -> bool:
        """Whether one of this context's threads runs `process` now."""
        position = self.roster.positions.get(process)
        return position is not None and bool(self.all_bits >> position & 1)

    def is_free(self, process: Process) -> bool:
        """Whether `process` is run by a thread of this context and has nothing outstanding."""
        position = self.roster.positions.get(process)
        return position is not None and bool(self.free_bits >> position & 1)

    def some_free_process(self) -> Process | None:
        """A free process, each as likely as the others; None if all are busy."""
        bits = self.free_bits
        if bits & (bits - 1):
            for _ in range(int(self.rng.random() * bits.bit_count())):
                bits &= bits - 1
        elif not bits:
            return None
        return self.roster.processes[(bits & -bits).bit_length() - 1]

    def only(self, bits: int) -> "Context":
        """This context as seen by a generator that may use just these threads."""
        seen = self.all_bits & bits
        if seen == self.all_bits:
            return self
        return Context(self.time, self.rng, self.roster, seen, self.free_bits & bits)

    def at(self, time: int) -> "Context":
        """This context at another time."""
        return Context(time, self.rng, self.roster, self.all_bits, self.free_bits)

    def begun(self, process: Process) -> "Context":
        """This context with the thread of `process` busy."""
        bit = 1 << self.roster.positions[process]
        return Context(self.time, self.rng, self.roster, self.all_bits, self.free_bits & ~bit)

    def ended(self, process: Process) -> "Context":
        """This context with the thread of `process` free."""
        bit = 1 << self.roster.positions[process]
        return Context(self.time, self.rng, self.roster, self.all_bits, self.free_bits | bit)

    def retired(self, process: Process) -> "Context":
        """This context with the next process in the place of `process`: p + concurrency.

        The nemesis never retires.
        """
        if not isinstance(process, int):
            return self
        position = self.roster.positions[process]
        concurrency = sum(isinstance(thread, int) for thread in self.roster.threads)
        roster = self.roster.replaced(position, process + concurrency)
        return Context(self.time, self.rng, roster, self.all_bits, self.free_bits)


def start_context(concurrency: int, rng: Random) -> Context:
    """Time zero: client threads 0 … concurrency-1 and the nemesis, all free, thread t running
    process t."""
    if concurrency < 0:
        raise ValueError(f"concurrency is negative: {concurrency}")
    threads = (*range(concurrency), NEMESIS)
    roster = Roster(threads, threads, {thread: i for i, thread in enumerate(threads)})
    everybody = (1 << len(threads)) - 1
    return Context(0, rng, roster, everybody, everybody)


def positions(bits: int) -> list[int]:
    """The positions of the set bits, lowest first."""
    return [i for i in range(bits.bit_length()) if bits >> i & 1]


class Generator(Protocol):
    """An immutable source of operations."""

    def op(self, ctx: Context) -> Step | None:
        """The next operation and the generator after it; None when exhausted."""
        ...

    def update(self, ctx: Context, event: Op) -> "Generator":
        """The generator after `event`.

        `ctx` is the state after the event, except that a process which the event retires is still
        on its thread.
        """
        ...
