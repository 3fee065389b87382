"""How often and until when: repeat, cycle, limit, once, until_ok, flip_flop, mix, any_of.

Wherever randomness decides, it is the context's: same seed, same choices.
"""

from collections.abc import Sequence
from random import Random

import msgspec

from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.generators.lift import EMPTY, Source, lift
from maxq.histories.op import Op, Process


class Repeat(msgspec.Struct, frozen=True):
    """The first operation of `gen`, again and again; `left` times, without end if negative."""

    gen: Generator
    left: int

    def op(self, ctx: Context) -> Step | None:
        if not self.left:
            return None
        step = self.gen.op(ctx)
        if step is None:
            return None
        if step[0] is PENDING or self.left < 0:
            return step[0], self
        return step[0], Repeat(self.gen, self.left - 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Repeat(after, self.left)


class Cycle(msgspec.Struct, frozen=True):
    """All operations of `fresh`, and all over again; `left` rounds, without end if negative."""

    fresh: Generator
    gen: Generator
    left: int

    def op(self, ctx: Context) -> Step | None:
        if not self.left:
            return None
        left, step = self.left, self.gen.op(ctx)
        if step is None:
            left -= left > 0
            # Only once: if there is nothing even in a fresh round, it would go on for ever.
            step = self.fresh.op(ctx) if left else None
        return None if step is None else (step[0], Cycle(self.fresh, step[1], left))

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Cycle(self.fresh, after, self.left)


class Limit(msgspec.Struct, frozen=True):
    """At most `left` operations."""

    gen: Generator
    left: int

    def op(self, ctx: Context) -> Step | None:
        if self.left <= 0:
            return None
        step = self.gen.op(ctx)
        if step is None:
            return None
        return step[0], Limit(step[1], self.left - (step[0] is not PENDING))

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Limit(after, self.left)


class UntilOk(msgspec.Struct, frozen=True):
    """Operations of `gen` until one of them is `ok`. `active` performs them now."""

    gen: Generator
    active: frozenset[Process] = frozenset()

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        if step is None:
            return None
        op, after = step
        # The end of a sleep is no update; remembering its process would take the credit for the
        # next operation of another.
        active = self.active | {op.process} if isinstance(op, Op) else self.active
        return op, UntilOk(after, active)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        if event.type == "invoke" or event.process not in self.active:
            return self if after is self.gen else UntilOk(after, self.active)
        return EMPTY if event.type == "ok" else UntilOk(after, self.active - {event.process})


class FlipFlop(msgspec.Struct, frozen=True):
    """One operation of each in turn, until one has no more."""

    gens: tuple[Generator, ...]
    turn: int = 0

    def op(self, ctx: Context) -> Step | None:
        step = self.gens[self.turn].op(ctx)
        if step is None:
            return None
        gens = replaced(self.gens, self.turn, step[1])
        turn = self.turn if step[0] is PENDING else (self.turn + 1) % len(gens)
        return step[0], FlipFlop(gens, turn)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = updated(self.gens, ctx, event)
        return self if after is self.gens else FlipFlop(after, self.turn)


class Mix(msgspec.Struct, frozen=True):
    """An operation of a random one, each as likely, for as long as any has more."""

    gens: tuple[Generator, ...]

    def op(self, ctx: Context) -> Step | None:
        left = self.gens  # those that may have more
        waiting: tuple[Generator, ...] = ()  # those that are pending
        while left:
            chosen = int(ctx.rng.random() * len(left))
            step = left[chosen].op(ctx)
            if step is None:
                left = left[:chosen] + left[chosen + 1 :]
            elif step[0] is PENDING:
                # Ask the others, or a free thread idles because the dice fell on a busy one.
                waiting = (*waiting, step[1])
                left = left[:chosen] + left[chosen + 1 :]
            elif step[1] is left[chosen] and left is self.gens:
                return step[0], self
            else:
                return step[0], Mix(waiting + replaced(left, chosen, step[1]))
        return (PENDING, Mix(waiting)) if waiting else None

    def update(self, ctx: Context, event: Op) -> Generator:
        after = updated(self.gens, ctx, event)
        return self if after is self.gens else Mix(after)


class AnyOf(msgspec.Struct, frozen=True):
    """The soonest operation of any; a random one of the soonest."""

    gens: tuple[Generator, ...]

    def op(self, ctx: Context) -> Step | None:
        steps = [gen.op(ctx) for gen in self.gens]
        chosen = soonest(steps, (1,) * len(steps), ctx.rng)
        if chosen is None:
            return None
        # Those that are not chosen are not moved: their answers are thrown away.
        at, step = chosen
        gens = replaced(self.gens, at, step[1])
        more = tuple(gen for gen, seen in zip(gens, steps, strict=True) if seen is not None)
        return step[0], more[0] if len(more) == 1 else AnyOf(more)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = updated(self.gens, ctx, event)
        return self if after is self.gens else AnyOf(after)


def soonest(
    steps: Sequence[Step | None], weights: Sequence[int], rng: Random
) -> tuple[int, Step] | None:
    """The step with the soonest operation and its position, ties decided by weighted chance.

    A pending one if there is no operation; None if all are exhausted.
    """
    best: tuple[int, Step] | None = None
    pending: tuple[int, Step] | None = None
    best_time, tied = 0, 0
    for i, step in enumerate(steps):
        if step is None:
            continue
        op = step[0]
        if op is PENDING:
            pending = i, step
        elif best is None or op.time < best_time:
            best, best_time, tied = (i, step), op.time, weights[i]
        elif op.time == best_time:
            # Each of several equals takes the place with its share of the weight so far, so in
            # the end every one has it in proportion to its own.
            tied += weights[i]
            if rng.random() * tied < weights[i]:
                best = i, step
    return best or pending


def replaced(gens: tuple[Generator, ...], at: int, gen: Generator) -> tuple[Generator, ...]:
    """`gens` with another one at a position."""
    return gens if gens[at] is gen else (*gens[:at], gen, *gens[at + 1 :])


def updated(gens: tuple[Generator, ...], ctx: Context, event: Op) -> tuple[Generator, ...]:
    """Each generator after `event`; the same tuple if none cares."""
    changed = None
    for i, gen in enumerate(gens):
        after = gen.update(ctx, event)
        if after is not gen:
            changed = changed or [*gens]
            changed[i] = after
    return gens if changed is None else tuple(changed)


def repeat(source: Source, count: int | None = None) -> Generator:
    """The first operation of `source` again and again: `count` times, or without end."""
    return Repeat(lift(source), times(count))


def cycle(source: Source, count: int | None = None) -> Generator:
    """All of `source`, and all over again: `count` rounds, or without end."""
    gen = lift(source)
    return Cycle(gen, gen, times(count))


def limit(count: int, source: Source) -> Generator:
    """At most `count` operations of `source`."""
    return Limit(lift(source), count)


def once(source: Source) -> Generator:
    """One operation of `source`."""
    return limit(1, source)


def until_ok(source: Source) -> Generator:
    """Operations of `source` until one of them completes `ok`."""
    return UntilOk(lift(source))


def flip_flop(*sources: Source) -> Generator:
    """One operation of each in turn, until one has no more."""
    return FlipFlop(tuple(map(lift, sources))) if sources else EMPTY


def mix(*sources: Source) -> Generator:
    """A random mixture: each operation comes from any source with the same chance.

    A source that is pending is passed over, one that is exhausted drops out.
    """
    return Mix(tuple(map(lift, sources)))


def any_of(*sources: Source) -> Generator:
    """All sources at once: always the soonest operation, ties decided by chance."""
    return AnyOf(tuple(map(lift, sources)))


def times(count: int | None) -> int:
    """A number of repetitions; -1 for without end."""
    if count is None:
        return -1
    if count < 0:
        raise ValueError(f"negative count: {count}")
    return count
