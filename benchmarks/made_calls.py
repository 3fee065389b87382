"""Columns of calls as linearizable objects answer them, for measurements."""

import numpy as np

from benchmarks.made_transactions import moments
from maxq.checkers.linearizability.calls import NEVER, NOTHING, OK, OPEN, Calls, Ints


def _calls(
    random: np.random.Generator, kinds: tuple[str, ...], columns: tuple[Ints, Ints, Ints],
    concurrency: int, info: float = 0.0,
) -> Calls:  # fmt: skip
    kind, argument, result = columns
    count = len(kind)
    when = moments(random, count, concurrency)
    order = np.argsort(when.begun, kind="stable")
    outcome = np.where(random.random(count) < info, OPEN, OK)
    ended = np.where(outcome == OPEN, NEVER, when.ended)
    result = np.where(outcome == OPEN, NOTHING, result)
    values = range(int(max(argument.max(), result.max())) + 1)
    other = np.full(count, NOTHING)
    return Calls(kinds, values, kind[order], argument[order], other, result[order],
                 when.begun[order], ended[order], outcome[order],
                 when.process[order])  # fmt: skip


def register_calls(count: int, concurrency: int, values: int = 0, info: float = 0.0) -> Calls:
    """So many writes and reads of a register, half of each; its values are written once, or are
    drawn from so many."""
    random = np.random.default_rng(1)
    read = random.random(count) < 0.5
    read[0] = False
    number = np.cumsum(~read) - 1
    written = random.integers(0, values, count) if values else np.arange(count)
    nothing = np.full(count, NOTHING)
    argument = np.where(read, nothing, written[number])
    result = np.where(read, written[number], nothing)
    return _calls(random, ("write", "read"), (read.astype(np.int64), argument, result),
                  concurrency, info)  # fmt: skip


def queue_calls(count: int, concurrency: int) -> Calls:
    """So many puts and takes of a queue, half of each, which is sometimes found empty."""
    random = np.random.default_rng(1)
    step = np.where(random.random(count) < 0.5, 1, -1)
    # A take of an empty queue finds nothing: what is inside is how far the walk is above its least.
    walk = np.cumsum(step)
    least = np.minimum(np.minimum.accumulate(walk), 0)
    empty = (step < 0) & (least < np.append(0, least[:-1]))
    put, take = step > 0, (step < 0) & ~empty
    nothing = np.full(count, NOTHING)
    argument = np.where(put, np.cumsum(put) - 1, nothing)
    result = np.where(take, np.cumsum(take) - 1, nothing)
    kind = np.where(put, 0, np.where(take, 1, 2))
    return _calls(random, ("enqueue", "dequeue", "empty"), (kind, argument, result), concurrency)
