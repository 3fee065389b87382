"""Who: on_threads, clients, nemesis, each_thread, reserve, process_limit, synchronize, phases.

A generator that may use some threads only is asked with a context that knows only those, and sees
only their updates. Restricting a context is an AND of bit sets, cheap enough to do at every
question (0.1 µs); only the set of threads itself is worked out once, at the first.
"""

from collections.abc import Callable, Collection

import msgspec

from maxq.harness.contracts.generator import (
    PENDING,
    Context,
    Generator,
    Roster,
    Step,
    Thread,
    positions,
)
from maxq.harness.generators.flow import any_of, replaced, soonest
from maxq.harness.generators.lift import Source, concat, lift
from maxq.histories.op import NEMESIS, Op, Process


class OnThreads(msgspec.Struct, frozen=True):
    """`gen` on the threads that `member` accepts: `bits`, worked out for `threads`."""

    gen: Generator
    member: Callable[[Thread], object]
    threads: tuple[Thread, ...] = ()
    bits: int = 0

    def op(self, ctx: Context) -> Step | None:
        bits = self._bits(ctx.roster)
        inside = ctx.only(bits)
        if not inside.all_bits:
            return None  # no thread here will ever perform it
        step = self.gen.op(inside)
        if step is None:
            return None
        return step[0], OnThreads(step[1], self.member, ctx.roster.threads, bits)

    def update(self, ctx: Context, event: Op) -> Generator:
        bits = self._bits(ctx.roster)
        if not bits >> ctx.roster.positions[event.process] & 1:
            return self
        after = self.gen.update(ctx.only(bits), event)
        if after is self.gen:
            return self
        return OnThreads(after, self.member, ctx.roster.threads, bits)

    def _bits(self, roster: Roster) -> int:
        # A run has one tuple of threads from beginning to end.
        return self.bits if roster.threads is self.threads else roster.bits(self.member)


class EachThread(msgspec.Struct, frozen=True):
    """A copy of `fresh` for each thread; `gens` by position, empty before the first question.

    `live` are the threads whose copy may have more.
    """

    fresh: Generator
    gens: tuple[Generator, ...] = ()
    live: int = -1  # all

    def op(self, ctx: Context) -> Step | None:
        gens, live = self._gens(ctx), self.live
        best: Step | None = None
        best_time, best_at = 0, 0
        # From a random thread on, and no further than the first that is ready now: a fair choice,
        # and one question instead of one a thread.
        waiting = positions(ctx.free_bits & live)
        start = int(ctx.rng.random() * len(waiting)) if len(waiting) > 1 else 0
        for at in (*waiting[start:], *waiting[:start]):
            step = gens[at].op(ctx.only(1 << at))
            if step is None:
                live &= ~(1 << at)
                continue
            op = step[0]
            if op is not PENDING and (best is None or op.time < best_time):
                best, best_time, best_at = step, op.time, at
                if best_time <= ctx.time:
                    break
        if best is not None:
            return best[0], EachThread(self.fresh, replaced(gens, best_at, best[1]), live)
        return (PENDING, EachThread(self.fresh, gens, live)) if ctx.all_bits & live else None

    def update(self, ctx: Context, event: Op) -> Generator:
        at = ctx.roster.positions[event.process]
        gens = self._gens(ctx)
        after = gens[at].update(ctx.only(1 << at), event)
        if after is gens[at]:
            return self
        return EachThread(self.fresh, replaced(gens, at, after), self.live)

    def _gens(self, ctx: Context) -> tuple[Generator, ...]:
        return self.gens or (self.fresh,) * len(ctx.roster.threads)


class Reserve(msgspec.Struct, frozen=True):
    """`gens` side by side on ranges of threads: `counts` threads each, the last on the rest.

    `bits` are those ranges, worked out at the first question.
    """

    counts: tuple[int, ...]
    gens: tuple[Generator, ...]
    bits: tuple[int, ...] = ()

    def op(self, ctx: Context) -> Step | None:
        ranges = self.bits or self._ranges(ctx)
        steps = [
            gen.op(ctx.only(bits)) if bits else None  # a rest of no threads has nothing to wait for
            for gen, bits in zip(self.gens, ranges, strict=True)
        ]
        chosen = soonest(steps, [bits.bit_count() for bits in ranges], ctx.rng)
        if chosen is None:
            return None
        at, step = chosen
        return step[0], Reserve(self.counts, replaced(self.gens, at, step[1]), ranges)

    def update(self, ctx: Context, event: Op) -> Generator:
        ranges = self.bits or self._ranges(ctx)
        at = ctx.roster.positions[event.process]
        for i, bits in enumerate(ranges):
            if bits >> at & 1:
                after = self.gens[i].update(ctx.only(bits), event)
                if after is not self.gens[i]:
                    return Reserve(self.counts, replaced(self.gens, i, after), ranges)
        return self

    def _ranges(self, ctx: Context) -> tuple[int, ...]:
        left = [1 << at for at in positions(ctx.all_bits)]
        if sum(self.counts) > len(left):
            raise ValueError(f"reserve needs {sum(self.counts)} threads, there are {len(left)}")
        ranges = []
        for count in self.counts:
            ranges.append(sum(left[:count]))
            left = left[count:]
        return (*ranges, sum(left))


class ProcessLimit(msgspec.Struct, frozen=True):
    """`gen` while no more than `most` processes have been there. `seen` holds those of `roster`."""

    gen: Generator
    most: int
    seen: frozenset[Process] = frozenset()
    roster: Roster | None = None

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        if step is None:
            return None
        seen = self.seen
        if step[0] is not PENDING and ctx.roster is not self.roster:
            seen |= frozenset(ctx.workers.values())
            if len(seen) > self.most:
                return None
        roster = self.roster if step[0] is PENDING else ctx.roster
        return step[0], ProcessLimit(step[1], self.most, seen, roster)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        if after is self.gen:
            return self
        return ProcessLimit(after, self.most, self.seen, self.roster)


class Synchronize(msgspec.Struct, frozen=True):
    """`gen`, once all threads are free at the same time."""

    gen: Generator

    def op(self, ctx: Context) -> Step | None:
        if ctx.free_bits == ctx.all_bits:
            return self.gen.op(ctx)
        return PENDING, self

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Synchronize(after)


def on_threads(
    threads: Collection[Thread] | Callable[[Thread], object], source: Source
) -> Generator:
    """`source` on these threads: a collection, or a predicate. Exhausted if there are none."""
    member = threads if callable(threads) else frozenset(threads).__contains__
    return OnThreads(lift(source), member)


def clients(source: Source, nemesis_source: Source = None) -> Generator:
    """`source` on the clients' threads, and beside it `nemesis_source` on the nemesis."""
    gen = on_threads(is_client, source)
    return gen if nemesis_source is None else any_of(gen, on_threads(is_nemesis, nemesis_source))


def nemesis(source: Source, client_source: Source = None) -> Generator:
    """`source` on the nemesis, and beside it `client_source` on the clients' threads."""
    gen = on_threads(is_nemesis, source)
    return gen if client_source is None else any_of(gen, on_threads(is_client, client_source))


def each_thread(source: Source) -> Generator:
    """All of `source` on every thread by itself; each copy knows of its own thread only."""
    return EachThread(lift(source))


def reserve(*ranges: tuple[int, Source], default: Source = None) -> Generator:
    """Sources side by side, each on threads of its own: ``reserve((5, a), (3, b), default=c)``
    gives a the first 5 threads that are here, b the next 3, c the others.
    """
    counts = tuple(count for count, _ in ranges)
    if any(count < 1 for count in counts):
        raise ValueError(f"reserve needs at least one thread a range: {counts}")
    return Reserve(counts, (*(lift(source) for _, source in ranges), lift(default)))


def process_limit(most: int, source: Source) -> Generator:
    """`source`, as long as it has met at most `most` processes.

    Those that could have performed an operation count, not those that did: otherwise the last few
    processes would go on alone, with less and less concurrency.
    """
    return ProcessLimit(lift(source), most)


def synchronize(source: Source) -> Generator:
    """`source`, once all threads are free at the same time."""
    return Synchronize(lift(source))


def phases(*sources: Source) -> Generator:
    """Each source in turn, each only when all threads have finished what was before."""
    return concat(*map(synchronize, sources))


def then(first: Source, second: Source) -> Generator:
    """`first`; when all threads have finished it, `second`."""
    return concat(first, synchronize(second))


def is_client(thread: Thread) -> bool:
    """Whether a thread runs clients."""
    return isinstance(thread, int)


def is_nemesis(thread: Thread) -> bool:
    """Whether a thread is the nemesis."""
    return thread == NEMESIS
