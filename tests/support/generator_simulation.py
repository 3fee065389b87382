"""Runs a generator without tasks, clients or waiting, to see what it does.

For tests of generators, workloads and fault packages: virtual time, answers decided by a function,
everything decided by the seed. Source: jepsen-io/generator, generator/test.clj.
"""

import heapq
from collections.abc import Callable
from random import Random

import msgspec

from maxq.harness.contracts.generator import PENDING, Context, Log, Sleep, Special, start_context
from maxq.harness.generators.lift import Source, lift
from maxq.harness.generators.transform import check
from maxq.histories.op import Op

Complete = Callable[[Context, Op], Op]  # an invocation -> its completion, at its own time

LATENCY_NS = 10
OPS_MAX = 100_000


class Stuck(Exception):
    """The generator is pending, and nothing will ever happen."""


class Simulated(msgspec.Struct, frozen=True):
    """What a generator did: the history with its indices, and the sleeps and logs."""

    history: list[Op]
    specials: list[Special]

    @property
    def invocations(self) -> list[Op]:
        """Each operation as it began; a begun fault counts as one."""
        begun: set[int | str] = set()
        found = []
        for op in self.history:
            if op.process in begun:
                begun.remove(op.process)
            else:
                begun.add(op.process)
                found.append(op)
        return found


def after(latency_ns: int, type_: str = "ok") -> Complete:
    """Answers of one type, all after the same time."""

    def complete(ctx: Context, op: Op) -> Op:
        kind = type_ if isinstance(op.process, int) else "info"
        return msgspec.structs.replace(op, type=kind, time=ctx.time + latency_ns, index=-1)

    return complete


def simulate(
    source: Source,
    *,
    concurrency: int = 2,
    seed: int = 0,
    complete: Complete | None = None,
    ops_max: int = OPS_MAX,
) -> Simulated:
    """Perform a generator to its end, or until `ops_max` operations have begun.

    Args:
        source: the generator; every operation is checked as `validate` does.
        concurrency: how many client threads there are beside the nemesis.
        seed: of the context's rng.
        complete: how operations end; by default all are `ok` after 10 ns.
        ops_max: where an endless generator is cut off; what is outstanding then completes.

    Raises:
        Stuck: the generator waits for what cannot happen.
    """
    gen = lift(source)
    ctx = start_context(concurrency, Random(seed))
    complete = complete or after(LATENCY_NS)
    seen = Simulated([], [])
    flying: list[tuple[int, int, Op | Special]] = []  # time, tie, completion
    count = 0

    def record(op: Op) -> Op:
        seen.history.append(msgspec.structs.replace(op, index=len(seen.history)))
        return seen.history[-1]

    while True:
        step = gen.op(ctx) if count < ops_max else None
        if step is None and not flying:
            return seen
        if step is not None and step[0] is not PENDING:
            op = step[0]
            check(ctx, op)
            if not flying or op.time <= flying[0][0]:
                gen = step[1]
                count += 1
                ctx = ctx.at(op.time).begun(op.process)
                done: Op | Special = op
                if isinstance(op, Op):
                    gen = gen.update(ctx, record(op))
                    done = complete(ctx, op)
                else:
                    seen.specials.append(op)
                heapq.heappush(flying, (ended_at(done), count, done))
                continue
        elif step is not None:
            gen = step[1]
        if not flying:
            raise Stuck(f"pending at {ctx.time} with nothing outstanding: {gen!r}")
        time, _, done = heapq.heappop(flying)
        ctx = ctx.at(max(time, ctx.time)).ended(done.process)
        if isinstance(done, Op):
            gen = gen.update(ctx, record(done))
            if done.type == "info":
                ctx = ctx.retired(done.process)


def ended_at(done: Op | Special) -> int:
    """When (ns) its thread is free again."""
    match done:
        case Sleep():
            return done.time + done.duration_ns
        case Op() | Log():
            return done.time
