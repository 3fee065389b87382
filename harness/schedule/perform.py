"""Generators that perform a schedule: calls at their times on their threads, acts when due.

A call whose thread is still busy `LATE_NS` after its time is left out: a client that hangs does not
make up for what it missed. Draws of a call are keyed by its id. Acts wait for times, for the end of
other acts, and for events, which are taken from the history as it grows: what a controller says of
a broker set, and heals. Times are ns of the run.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any

import msgspec

from maxq.harness.contracts.cluster import Retries
from maxq.harness.contracts.generator import PENDING, Context, Generator, Roster, Sleep, Step
from maxq.harness.schedule.format import (
    BODY_BYTES_MAX,
    EVENTS,
    READ,
    SEND,
    START,
    TURN,
    Act,
    Call,
    Schedule,
    ScheduleError,
    ns,
)
from maxq.harness.schedule.gates import Gated
from maxq.harness.schedule.retries import Retrying
from maxq.histories.fault_facts import BUILT_IN, Kinds
from maxq.histories.observed import CREATE_TOPIC, OBSERVE_CONTROLLER
from maxq.histories.op import NEMESIS, Op, Process

LATE_NS = 250_000_000
ASSIGN = "assign"
SIZE = "size"


class Started(msgspec.Struct, frozen=True):
    """What `make` makes of the time at which it is first asked: generators with a clock."""

    make: Callable[[int], Generator]

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        # A question changes nothing, so the clock can be started by an answer only: one that keeps
        # a thread for no time at all.
        return Sleep(process, 0, ctx.time), self.make(ctx.time)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Within(msgspec.Struct, frozen=True):
    """What `gen` would do before `end` (ns), and pending from then on. A time limit takes the next
    operation that is beyond it for the end of all, although a client may only be busy."""

    gen: Generator
    end: int

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        if step is None:
            return None
        op, after = step
        if op is not PENDING and op.time >= self.end:
            return PENDING, self
        return op, self if after is self.gen else Within(after, self.end)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Within(after, self.end)


class Calls(msgspec.Struct, frozen=True):
    """The calls of the workload queue. `at` is how many of each thread's are over; `assigned` who
    of each thread's processes has been told what to read."""

    by_thread: tuple[Sequence[Call], ...]
    begun: int
    shares: tuple[tuple[int, ...], ...]  # keys of each reader, by thread
    at: tuple[int, ...]
    assigned: tuple[Process | None, ...]

    def op(self, ctx: Context) -> Step | None:
        at, best, best_due, left = self.at, -1, 0, False
        late = ctx.time - self.begun - LATE_NS
        for thread, calls in enumerate(self.by_thread):
            here = at[thread]
            if here == len(calls):
                continue
            if not ctx.free_bits >> thread & 1:
                left = True
                continue
            due = ns(calls[here].at)
            if due < late:
                here = _in_time(calls, here, late)
                at = _with(at, thread, here)
                if here == len(calls):
                    continue
                due = ns(calls[here].at)
            left = True
            if best < 0 or due < best_due:
                best, best_due = thread, due
        after = self if at is self.at else msgspec.structs.replace(self, at=at)
        if best < 0:
            return (PENDING, after) if left else None
        return self._op(ctx, best, max(self.begun + best_due, ctx.time), after)

    def _op(self, ctx: Context, thread: int, time: int, after: "Calls") -> Step:
        process = ctx.roster.processes[thread]
        call = self.by_thread[thread][after.at[thread]]
        if call.f == READ and self.assigned[thread] != process:
            # A new process would have nothing to poll; it is told, and the call comes next.
            return Op("invoke", process, ASSIGN, list(self.shares[thread]), time=time), after
        at = _with(after.at, thread, after.at[thread] + 1)
        return _queue_op(call, process, time), msgspec.structs.replace(after, at=at)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.f != ASSIGN or event.type != "ok":
            return self
        thread = ctx.roster.positions[event.process]
        assigned = _with(self.assigned, thread, event.process)
        return msgspec.structs.replace(self, assigned=assigned)


def _queue_op(call: Call, process: Process, time: int) -> Op:
    if call.f == SEND:
        key, size, value = call.value
        ext = {SIZE: size} if size else None
        return Op("invoke", process, SEND, [[SEND, key, value]], time=time, ext=ext)
    if call.f == CREATE_TOPIC:
        return Op("invoke", process, CREATE_TOPIC, call.value, time=time)
    return Op("invoke", process, call.f, [[call.f]], time=time)


def _in_time(calls: Sequence[Call], at: int, since_ns: int) -> int:
    """The first call from `at` on that is due at `since_ns` or later."""
    while at < len(calls) and ns(calls[at].at) < since_ns:
        at += 1
    return at


def _with(items: tuple[Any, ...], at: int, item: object) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


class Turns(msgspec.Struct, frozen=True, dict=True):
    """The calls of any other workload: at each its own generator says what the client does next,
    drawing from a stream of that call."""

    gen: Generator
    calls: Sequence[Call]  # in order of time
    begun: int
    first: int  # the workload's first thread
    last: tuple[str, ...]  # the id of each thread's last call
    at: int = 0

    def op(self, ctx: Context) -> Step | None:
        for at in range(self.at, len(self.calls)):
            call = self.calls[at]
            due = self.begun + ns(call.at)
            thread = call.thread % len(self.last)
            bit = 1 << (self.first + thread)
            free = bool(ctx.free_bits & bit)
            if due < ctx.time - LATE_NS or (due <= ctx.time and not free):
                continue
            if not free:
                return PENDING, self._from(at)
            step = self._asked(ctx, at, due, bit)
            if step is None or not isinstance(step[0], Op) or step[0].time > max(due, ctx.time):
                continue  # nothing to do for it yet
            last = _with(self.last, thread, call.id)
            return step[0], msgspec.structs.replace(self, gen=step[1], at=at + 1, last=last)
        return None

    @cached_property
    def _answers(self) -> dict[int, tuple[Roster, Step | None]]:
        """What the generator said of calls that were not due: the same until one of them changes,
        and asked for at each question of anybody."""
        return {}

    def _asked(self, ctx: Context, at: int, due: int, bit: int) -> Step | None:
        known = self._answers.get(at)
        if due > ctx.time and known is not None and known[0] is ctx.roster:
            return known[1]
        time = max(due, ctx.time)
        alone = Context(time, Random(self.calls[at].id), ctx.roster, ctx.all_bits, bit)
        step = self.gen.op(alone)
        if due > ctx.time:
            self._answers[at] = ctx.roster, step
        return step

    def _from(self, at: int) -> "Turns":
        return self if at == self.at else msgspec.structs.replace(self, at=at)

    def update(self, ctx: Context, event: Op) -> Generator:
        thread = ctx.roster.positions[event.process] - self.first
        gen = self.gen.update(keyed(ctx, f"{self.last[thread]}/{event.type}"), event)
        return self if gen is self.gen else msgspec.structs.replace(self, gen=gen)


def keyed(ctx: Context, key: str) -> Context:
    """The same, with a stream of randomness of its own."""
    return Context(ctx.time, Random(key), ctx.roster, ctx.all_bits, ctx.free_bits)


class SetSeen(msgspec.Struct, frozen=True):
    """The newest that a controller said of a broker set."""

    master_epoch: int
    set_epoch: int
    members: int


class Acts(msgspec.Struct, frozen=True, dict=True):
    """The operations of the nemesis. `told` are events with their times, in order; `ended` when
    each act that is over was."""

    acts: tuple[Act, ...]  # all
    begun: int
    replicas: int  # of each broker set
    left: tuple[int, ...]  # which are not done
    ended: Mapping[str, int] = msgspec.field(default_factory=dict)
    told: tuple[tuple[int, str], ...] = ()
    seen: Mapping[str, SetSeen] = msgspec.field(default_factory=dict)
    underway: str = ""
    awaited: int = 0  # events of it that are still to come: begin and end
    kinds: Kinds = BUILT_IN
    cuts: frozenset[str] = frozenset()  # the acts whose cuts are in force

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None or self.underway:
            return (PENDING, self) if self.left or self.underway else None
        if self._next is None:
            return (PENDING, self) if self.left else None
        due, at = self._next
        act = self.acts[at]
        ext = asked(act)
        op = Op("info", NEMESIS, act.f, act.id, time=max(due, ctx.time), ext=ext or None)
        left = tuple(i for i in self.left if i != at)
        return op, msgspec.structs.replace(self, left=left, underway=act.id, awaited=2)

    @cached_property
    def _next(self) -> tuple[int, int] | None:
        """When the first act is due of those of which that is known, and which."""
        known = ((due, at) for at in self.left if (due := self.due(at)) is not None
                 and not (self.cuts and self.acts[at].when.uncut))  # fmt: skip
        return min(known, default=None)

    def due(self, at: int) -> int | None:
        """When an act is due (ns); None if nobody knows yet."""
        when = self.acts[at].when
        if when.after == START:
            return self.begun + ns(when.at)
        if when.after not in EVENTS:
            ended = self.ended.get(when.after)
            return None if ended is None else ended + ns(when.at)
        armed = self.ended.get(self.acts[at - 1].id) if at else self.begun
        if armed is None:
            return None
        first = next((t for t, event in self.told if event == when.after and t >= armed), None)
        return armed + ns(when.within) if first is None else first + ns(when.at)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.process == NEMESIS and self.awaited:
            return self._acted(event)
        return self.heard(event)

    def heard(self, event: Op) -> "Acts":
        """The same after an observer's answer."""
        if event.f == OBSERVE_CONTROLLER and event.type == "ok":
            return self._observed(event)
        return self

    def _acted(self, event: Op) -> "Acts":
        if self.awaited == 2:  # the begin of the act under way
            return msgspec.structs.replace(self, awaited=1)
        told = (*self.told, (event.time, "healed")) if self.kinds.heals(event.f) else self.told
        ended = {**self.ended, self.underway: event.time}
        return msgspec.structs.replace(
            self, ended=ended, told=told, cuts=self._cuts_after(event), underway="", awaited=0
        )

    def _cuts_after(self, event: Op) -> frozenset[str]:
        """The acts whose cuts are in force after the one under way."""
        if self.kinds.effect(event.f) == "cut":
            return self.cuts | {self.underway}
        if not self.kinds.concerns(event.f, "cut"):
            return self.cuts
        of = next(act.who.of for act in self.acts if act.id == self.underway)
        return self.cuts - {of} if of else frozenset()

    def _observed(self, event: Op) -> "Acts":
        seen, told = dict(self.seen), list(self.told)
        for name, view in _sets(event.value):
            before = seen.get(name)
            if before is None:
                seen[name] = view
                continue
            if view.master_epoch < before.master_epoch or view.set_epoch < before.set_epoch:
                continue  # an answer from before
            if view.master_epoch > before.master_epoch:
                told.append((event.time, "new-epoch"))
            if view.members < before.members:
                told.append((event.time, "set-shrank"))
            if view.members > before.members:
                told.append((event.time, "set-grew"))
                if view.members == self.replicas:
                    told.append((event.time, "set-whole"))
            seen[name] = view
        if seen == self.seen:
            return self
        return msgspec.structs.replace(self, seen=seen, told=tuple(told))


class Aware(msgspec.Struct, frozen=True):
    """A generator of the nemesis that is told of everybody's operations."""

    gen: Generator

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx.only(1 << ctx.roster.positions[NEMESIS]))
        return None if step is None else (step[0], Aware(step[1]))

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Aware(after)


def asked(act: Act) -> dict[str, Any]:
    """What the operation of an act says beside its id."""
    who = msgspec.to_builtins(act.who)
    return {k: v for k, v in (("who", who), ("args", act.args)) if v}


def _sets(value: Any) -> list[tuple[str, SetSeen]]:
    """What a controller said of broker sets that have a master."""
    found = []
    for name, view in value["sets"].items():
        if view.get("master") is not None:
            told = SetSeen(
                view["master_epoch"], view["sync_state_set_epoch"], len(view["sync_state_set"])
            )
            found.append((name, told))
    return found


class First(Random):
    """Randomness for whoever asks a scripted run's context: always the first of the possible.
    A stream that runs on would make what follows depend on how much was asked before."""

    def random(self) -> float:
        return 0.0

    def getrandbits(self, k: int) -> int:
        return 0


def queue_calls(
    schedule: Schedule,
    threads: int,
    shares: tuple[tuple[int, ...], ...],
    retries: Retries | None = None,
    instead: Mapping[int, int] | None = None,
) -> Callable[[int], Generator]:
    """The workload queue's calls, for `Started`.

    Args:
        schedule: whose calls.
        threads: of the workload.
        shares: the keys of each reader, by thread; readers are the first threads.
        retries: how sends that failed are tried again; None: they are not.
        instead: the keys of topics that an operator makes, and what is sent to before.

    Raises:
        ScheduleError: a call is for a thread that there is not, or that does something else.
    """
    by_thread: list[list[Sequence[Call]]] = [[] for _ in range(threads)]
    for call in schedule.calls:
        if call.workload == "queue":
            by_thread[_checked(call, threads, len(shares))].append((call,))
    for stretch in schedule.stretches():
        if stretch.load.workload == "queue" and len(stretch):
            for thread in stretch.threads:
                mine = stretch.of_thread(thread)
                _checked(mine[0] if mine else stretch[0], threads, len(shares))
                by_thread[thread].append(mine)

    length = ns(schedule.header.length)

    def make(begun: int) -> Generator:
        nobody = (0,) * threads
        calls = Calls(tuple(map(_merged, by_thread)), begun, shares, nobody, (None,) * threads)
        tried = calls if retries is None else Retrying(calls, retries)
        return Within(Gated(tried, instead) if instead else tried, begun + length)

    return make


def _merged(parts: Sequence[Sequence[Call]]) -> Sequence[Call]:
    """Calls in order of time; those of a load alone are made when they are due."""
    if len(parts) == 1:
        return parts[0]
    return tuple(sorted((c for part in parts for c in part), key=lambda c: (c.at, c.id)))


def _checked(call: Call, threads: int, readers: int) -> int:
    if not 0 <= call.thread < threads:
        raise ScheduleError(f"{call.id}: no thread {call.thread}, there are {threads}")
    of_writers = (SEND, CREATE_TOPIC)
    if call.f not in (READ, *of_writers) or (call.f == READ) != (call.thread < readers):
        raise ScheduleError(f"{call.id}: thread {call.thread} does no {call.f}")
    if call.f == CREATE_TOPIC and not _is_creation(call.value):
        raise ScheduleError(f"{call.id}: which topic is made says key, topic and node, "
                            f"not {call.value!r:.100}")  # fmt: skip
    if call.f == SEND and not _is_send(call.value):
        raise ScheduleError(
            f"{call.id}: a send needs [key, size, value], not {call.value!r:.100}; "
            f"a size is at most {BODY_BYTES_MAX}"
        )
    return call.thread


def _is_send(value: Any) -> bool:
    match value:
        case [int(), int(size), _]:
            return 0 <= size <= BODY_BYTES_MAX
    return False


def _is_creation(value: Any) -> bool:
    match value:
        case {"key": int(), "topic": str(), "node": str()}:
            return len(value) == len(("key", "topic", "node"))
    return False


def turns(
    schedule: Schedule, workload: str, gen: Generator, first: int, threads: int
) -> Callable[[int], Generator]:
    """Another workload's calls, for `Started`; arguments as `Turns`.

    Raises:
        ScheduleError: a call is for a thread that there is not, or says what its client is to do.
    """
    listed = [(c,) for c in schedule.calls if c.workload == workload]
    stretches = [s for s in schedule.stretches() if s.load.workload == workload]
    firsts = [s.of_thread(thread) for s in stretches for thread in s.threads]
    parts: list[Sequence[Call]] = [*listed, *stretches]
    for call in (first for part in (*parts, *firsts) for first in part[:1]):
        if call.f != TURN or not 0 <= call.thread < threads:
            raise ScheduleError(
                f"{call.id}: {workload} has turns of threads 0 to {threads - 1}, "
                f"no {call.f} of thread {call.thread}"
            )
    nobody, length = ("",) * threads, ns(schedule.header.length)
    calls = _merged(parts)
    return lambda begun: Within(Turns(gen, calls, begun, first, nobody), begun + length)


def acts(schedule: Schedule, replicas: int, kinds: Kinds) -> Callable[[int], Generator]:
    """The schedule's acts, for `Started`."""
    every = tuple(range(len(schedule.acts)))
    length = ns(schedule.header.length)
    return lambda begun: Within(
        Acts(schedule.acts, begun, replicas, every, kinds=kinds), begun + length
    )
