"""What is made of it: map_, f_map, filter_, on_update, trace, validate."""

from collections.abc import Callable, Mapping

import msgspec

from maxq.harness.contracts.generator import (
    PENDING,
    Context,
    Generator,
    Log,
    Pending,
    Sleep,
    Special,
    Step,
)
from maxq.harness.generators.lift import Source, argument_count, is_generator, lift
from maxq.histories.op import Op

REJECTS_MAX = 100_000  # operations in a row that a filter drops before it is given up


class IllFormed(ValueError):
    """A generator gave something that cannot be performed."""


class Map(msgspec.Struct, frozen=True):
    """Operations of `gen` as `change` makes them."""

    gen: Generator
    change: Callable[..., Op]
    takes_context: bool

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        if step is None:
            return None
        op, after = step
        if isinstance(op, Op):
            op = self.change(op, ctx) if self.takes_context else self.change(op)
        return op, Map(after, self.change, self.takes_context)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Map(after, self.change, self.takes_context)


class Filter(msgspec.Struct, frozen=True):
    """Operations of `gen` that `keep` accepts."""

    gen: Generator
    keep: Callable[[Op], object]

    def op(self, ctx: Context) -> Step | None:
        gen = self.gen
        for _ in range(REJECTS_MAX):
            step = gen.op(ctx)
            if step is None:
                return None
            op, gen = step
            if not isinstance(op, Op) or self.keep(op):
                return op, Filter(gen, self.keep)
        raise ValueError(f"{REJECTS_MAX} operations in a row dropped by {self.keep!r}")

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Filter(after, self.keep)


class OnUpdate(msgspec.Struct, frozen=True):
    """`gen`, until `react` makes something else of it."""

    gen: Generator
    react: Callable[["OnUpdate", Context, Op], Source]

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        return None if step is None else (step[0], OnUpdate(step[1], self.react))

    def update(self, ctx: Context, event: Op) -> Generator:
        return lift(self.react(self, ctx, event))


class Traced(msgspec.Struct, frozen=True):
    """`gen`, with `say` called for every question and answer."""

    gen: Generator
    name: str
    say: Callable[[str], None]

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        self.say(f"{self.name} op at {ctx.time}: {None if step is None else step[0]}")
        return None if step is None else (step[0], Traced(step[1], self.name, self.say))

    def update(self, ctx: Context, event: Op) -> Generator:
        self.say(f"{self.name} update at {ctx.time}: {event}")
        return Traced(self.gen.update(ctx, event), self.name, self.say)


class Validated(msgspec.Struct, frozen=True):
    """`gen`, refusing what is ill-formed."""

    gen: Generator

    def op(self, ctx: Context) -> Step | None:
        step = self.gen.op(ctx)
        if step is None:
            return None
        if not (isinstance(step, tuple) and len(step) == 2 and is_generator(step[1])):
            raise IllFormed(f"neither None nor an operation with a generator: {step!r}")
        if step[0] is not PENDING:
            check(ctx, step[0])
        return step[0], Validated(step[1])

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Validated(after)


def check(ctx: Context, op: Op | Special) -> None:
    """Refuse what cannot be performed in `ctx`.

    Raises:
        IllFormed: it names the operation and each thing that is wrong with it.
    """
    wrong = list(problems(ctx, op))
    if wrong:
        raise IllFormed(f"ill-formed operation {op!r}: {'; '.join(wrong)}")


def problems(ctx: Context, op: Op | Special | Pending) -> list[str]:
    """What is wrong with `op`."""
    if not isinstance(op, Op | Sleep | Log):
        return ["neither an operation nor a sleep or log"]
    wrong = []
    if not isinstance(op.time, int) or isinstance(op.time, bool):
        wrong.append(f"time {op.time!r} is not a whole number of ns")
    elif op.time < ctx.time:
        wrong.append(f"time {op.time} is in the past, now is {ctx.time}")
    if not ctx.is_free(op.process):
        if ctx.knows(op.process):
            wrong.append(f"process {op.process!r} is not free")
        else:
            wrong.append(f"no thread runs process {op.process!r}")
    if isinstance(op, Op):
        begins = "invoke" if isinstance(op.process, int) else "info"
        if op.type != begins:
            wrong.append(f"type is {op.type!r}, not {begins!r}")
        if not isinstance(op.f, str):
            wrong.append(f"f is {op.f!r}, not a string")
    elif isinstance(op, Sleep) and op.duration_ns < 0:
        wrong.append(f"negative duration {op.duration_ns}")
    return wrong


def map_(change: Callable[..., Op], source: Source) -> Generator:
    """Each operation as ``change(op)``, or ``change(op, ctx)``, makes it.

    Updates pass through unchanged: `source` sees operations as they were performed.
    """
    return Map(lift(source), change, argument_count(change, 2) == 2)


def f_map(names: Mapping[str, str] | Callable[[str], str], source: Source) -> Generator:
    """Operations with another `f`. One that a mapping does not name is an error."""

    def rename(op: Op) -> Op:
        if callable(names):
            return msgspec.structs.replace(op, f=names(op.f))
        if op.f not in names:
            raise ValueError(f"no new name for {op.f!r}; have {sorted(names)}")
        return msgspec.structs.replace(op, f=names[op.f])

    return map_(rename, source)


def filter_(keep: Callable[[Op], object], source: Source) -> Generator:
    """Only the operations that `keep` accepts. Sleeps and logs always pass."""
    return Filter(lift(source), keep)


def on_update(react: Callable[[OnUpdate, Context, Op], Source], source: Source) -> Generator:
    """`source`, but at each event ``react(this, ctx, event)`` says what follows.

    `this` is the generator itself: returning it means no change, ``this.gen`` is what is inside.
    Events do not reach `source` unless `react` passes them on.
    """
    return OnUpdate(lift(source), react)


def trace(name: str, say: Callable[[str], None], source: Source) -> Generator:
    """`source`, with a line to `say` for every question, answer and update."""
    return Traced(lift(source), name, say)


def validate(source: Source) -> Generator:
    """`source`, raising `IllFormed` where it gives what cannot be performed."""
    return Validated(lift(source))
