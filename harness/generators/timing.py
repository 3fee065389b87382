"""When: delay, stagger, time_limit. Times and durations are nanoseconds."""

import msgspec

from maxq.harness.contracts.generator import PENDING, Context, Generator, Special, Step
from maxq.harness.generators.lift import Source, lift
from maxq.histories.op import Op

SECOND_NS = 1_000_000_000


class Delay(msgspec.Struct, frozen=True):
    """Operations `gap_ns` apart. `due` is when the next may come; -1: at once."""

    gen: Generator
    gap_ns: int
    due: int = -1

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        if step is None:
            return None
        op, after = step
        if op is PENDING:
            return PENDING, Delay(after, self.gap_ns, self.due)
        time = max(op.time, self.due)
        return moved(op, time), Delay(after, self.gap_ns, time + self.gap_ns)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Delay(after, self.gap_ns, self.due)


class Stagger(msgspec.Struct, frozen=True):
    """Operations a random time apart, uniform in [0, `spread_ns`)."""

    gen: Generator
    spread_ns: int
    due: int = -1

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        if step is None:
            return None
        op, after = step
        if op is PENDING:
            return PENDING, Stagger(after, self.spread_ns, self.due)
        time = op.time
        if time < self.due:
            time = self.due
            op = moved(op, time)
        due = time + int(ctx.rng.random() * self.spread_ns)
        return op, Stagger(after, self.spread_ns, due)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Stagger(after, self.spread_ns, self.due)


class TimeLimit(msgspec.Struct, frozen=True):
    """Operations that begin before `end`, which the first one sets; -1: none yet."""

    gen: Generator
    limit_ns: int
    end: int = -1

    def op(self, ctx: Context) -> Step | None:
        end = self.end
        if 0 <= end <= ctx.time:
            return None
        step = self.gen.op(ctx)
        if step is None:
            return None
        op, after = step
        if op is not PENDING:
            if end < 0:
                end = op.time + self.limit_ns
            if op.time >= end:
                return None
        return op, TimeLimit(after, self.limit_ns, end)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else TimeLimit(after, self.limit_ns, self.end)


def moved(op: Op | Special, time: int) -> Op | Special:
    """`op` at another time."""
    return op if op.time == time else msgspec.structs.replace(op, time=time)


def delay(gap_ns: int, source: Source) -> Generator:
    """Operations exactly `gap_ns` apart. One that comes late moves those after it."""
    return Delay(lift(source), duration(gap_ns))


def stagger(mean_ns: int, source: Source) -> Generator:
    """Operations on average `mean_ns` apart, uniform between none and twice that.

    The rate is that of all threads together, not of each. The first comes at once.
    """
    return Stagger(lift(source), 2 * duration(mean_ns))


def time_limit(limit_ns: int, source: Source) -> Generator:
    """Operations that begin less than `limit_ns` after the first one."""
    return TimeLimit(lift(source), duration(limit_ns))


def duration(given_ns: int) -> int:
    """Check a duration. Raises ValueError if it is negative."""
    if given_ns < 0:
        raise ValueError(f"negative duration: {given_ns} ns")
    return given_ns
