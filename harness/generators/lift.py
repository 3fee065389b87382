"""What may stand for a generator, and how it becomes one.

====================  =========================================================================
a dict                one operation with these fields; see `template`
an `Op`               one operation with these fields; its process is used as it is
a function            called for each operation, with the context or with nothing; what it
                      returns is itself lifted and used up before the next call; None: exhausted
a list or tuple       each in turn
None                  exhausted at once
a generator           itself
====================  =========================================================================

A function may be called more often than its operations are used, since asking is free (see
`maxq.harness.contracts.generator`): a counter in a closure has gaps. It is not called while no
thread is free.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, TypeAlias, TypeGuard

import msgspec

from maxq.harness.contracts.generator import PENDING, Context, Generator, Log, Sleep, Special, Step
from maxq.histories.op import Op, OpType, Process

Source: TypeAlias = (
    "Generator | Op | Mapping[str, Any] | Callable[..., Source] | Sequence[Source] | None"
)

EMPTY_RESULTS_MAX = 1000  # results in a row without an operation, before a function is given up


class Empty(msgspec.Struct, frozen=True):
    """Exhausted."""

    def op(self, ctx: Context) -> Step | None:
        return None

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


EMPTY = Empty()


class Template(msgspec.Struct, frozen=True):
    """One operation, filled in from the context: process, type, time."""

    f: str
    value: Any = None
    process: Process | None = None
    type: OpType | None = None
    error: Any = None
    time: int = -1
    ext: dict[str, Any] | None = None

    def op(self, ctx: Context) -> Step | None:
        process = self.process
        if process is None:
            process = ctx.some_free_process()
            if process is None:
                return PENDING, self
        elif not ctx.is_free(process):
            if not ctx.knows(process):
                have = list(ctx.workers.values())
                raise ValueError(f"no thread runs process {process!r} of {self.f!r}; have {have}")
            return PENDING, self
        # A fault is neither called nor answered as clients' operations are: begin and end are info.
        kind: OpType = self.type or ("invoke" if isinstance(process, int) else "info")
        time = max(ctx.time, self.time)
        return Op(kind, process, self.f, self.value, self.error, -1, time, self.ext), EMPTY

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class SpecialOnce(msgspec.Struct, frozen=True):
    """One `Special`, by any free process."""

    special: Special

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        return msgspec.structs.replace(self.special, process=process, time=ctx.time), EMPTY

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Function(msgspec.Struct, frozen=True):
    """Calls `make` for each operation."""

    make: Callable[..., Source]
    takes_context: bool

    def op(self, ctx: Context) -> Step | None:
        if not ctx.free_bits:
            return PENDING, self
        for _ in range(EMPTY_RESULTS_MAX):
            made = self.make(ctx) if self.takes_context else self.make()
            if made is None:
                return None
            step = lift(made).op(ctx)
            if step is not None:
                return step[0], joined(step[1], self)
        raise ValueError(f"{EMPTY_RESULTS_MAX} results without an operation, from {self.make!r}")

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Concat(msgspec.Struct, frozen=True):
    """Each in turn: `current`, which began as number `at`, then those after it."""

    sources: tuple[Generator, ...]
    current: Generator
    at: int = 0

    def op(self, ctx: Context) -> Step | None:
        sources, current, at = self.sources, self.current, self.at
        while True:
            step = current.op(ctx)
            if step is not None:
                break
            at += 1
            if at == len(sources):
                return None
            current = sources[at]
        after = step[1]
        if at + 1 == len(sources):
            return step[0], after
        if after is EMPTY:
            return step[0], Concat(sources, sources[at + 1], at + 1)
        return step[0], Concat(sources, after, at)

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.current.update(ctx, event)
        return self if after is self.current else Concat(self.sources, after, self.at)


def joined(first: Generator, second: Generator) -> Generator:
    """`first` and then `second`."""
    return second if first is EMPTY else Concat((first, second), first)


def concat(*sources: Source) -> Generator:
    """Each source in turn. A later one does not see updates before its turn."""
    gens = tuple(map(lift, sources))
    return Concat(gens, gens[0]) if gens else EMPTY


def template(fields: Mapping[str, Any]) -> Template:
    """One operation with the given fields.

    `f` is required. By default the process is any free one, the type ``invoke`` for a client and
    ``info`` for the nemesis, and the time now; a later `time` (ns) is kept. A named process that
    is busy is waited for. Keys that are not fields of an operation become its `ext`.
    """
    known = dict(fields)
    f = known.pop("f", None)
    if not isinstance(f, str):
        raise ValueError(f"an operation needs f, a string: {fields!r}")
    if "index" in known:
        raise ValueError(f"index is the recorder's to give: {fields!r}")
    value, process, kind = (
        known.pop("value", None),
        known.pop("process", None),
        known.pop("type", None),
    )
    error, time = known.pop("error", None), known.pop("time", None)
    ext = (known.pop("ext", None) or {}) | known
    return Template(f, value, process, kind, error, -1 if time is None else time, ext or None)


def log(message: str) -> Generator:
    """One message to the log. Keeps a thread for that moment; not in the history."""
    return SpecialOnce(Log("", message))


def sleep(duration_ns: int) -> Generator:
    """One thread does nothing for a while; not in the history.

    Other threads go on: ``phases(a, sleep(s), b)`` is a pause for all, ``[a, sleep(s), b]`` is not.
    """
    return SpecialOnce(Sleep("", duration_ns))


def lift(source: Source) -> Generator:
    """The generator that `source` stands for; see the table above."""
    if source is None:
        return EMPTY
    if isinstance(source, Mapping):
        return template(source)
    if isinstance(source, Op):
        return Template(
            source.f,
            source.value,
            source.process,
            source.type,
            source.error,
            source.time,
            source.ext,
        )
    if isinstance(source, list | tuple):
        return concat(*source)
    if is_generator(source):
        return source
    if callable(source):
        return Function(source, argument_count(source, 1) == 1)
    raise TypeError(f"not a generator, nor anything that stands for one: {source!r}")


def is_generator(source: object) -> TypeGuard[Generator]:
    """Whether `source` answers a generator's two questions by itself."""
    return callable(getattr(source, "op", None)) and callable(getattr(source, "update", None))


def argument_count(function: Callable[..., Any], most: int) -> int:
    """How many positional arguments, up to `most`, a function takes."""
    try:
        parameters: Iterable[Parameter] = signature(function).parameters.values()
    except ValueError:  # some built-in callables do not say; those in use take nothing
        return 0
    count = 0
    for parameter in parameters:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            return most
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            # A default is the function's own business: `lambda i=i: …` takes nothing from us.
            count += parameter.default is Parameter.empty
    return min(count, most)
