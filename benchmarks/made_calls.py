"""Columns of calls as linearizable objects answer them, for measurements."""

from typing import NamedTuple

import numpy as np

from benchmarks.made_transactions import moments
from maxq.checkers.linearizability.calls import NEVER, NOTHING, OK, OPEN, Calls, Ints
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.exact.elements import Elements
from maxq.checkers.models.judged import taken_of
from maxq.checkers.models.kv import KeyValue
from maxq.histories.history import History
from maxq.workloads.of_models.making import made
from maxq.workloads.of_models.request import ModelRequest


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


def log_calls(count: int, concurrency: int) -> Calls:
    """So many appends, reads and polls of a log, half of them appends; of one in a hundred no
    answer came, and one in a hundred finds the end."""
    random = np.random.default_rng(1)
    append = random.random(count) < 0.5
    append[0] = True
    length = np.cumsum(append)
    end = ~append & (random.random(count) < 0.02)
    poll = ~append & ~end & (random.random(count) < 0.1)
    offset = (random.random(count) * length).astype(np.int64)
    nothing = np.full(count, NOTHING)
    # A value is its offset; behind all offsets come what polls show, three messages each.
    number = np.cumsum(poll) + length[-1]
    shown = [
        tuple((int(n), int(n)) for n in range(at, min(at + 3, most)))
        for at, most in zip(offset[poll].tolist(), length[poll].tolist(), strict=True)
    ]
    argument = np.where(append, length - 1, np.where(end, length, offset))
    result = np.where(end, nothing, np.where(poll, number, np.where(append, length - 1, offset)))
    kind = np.where(append, 0, np.where(poll, 2, np.where(end, 3, 1)))
    made = _calls(random, ("append", "read", "poll", "end"), (kind, argument, result), concurrency,
                  0.01)  # fmt: skip
    return made._replace(values=[*range(int(length[-1]) + 1), *shown])


def lease_calls(count: int, clients: int) -> Calls:
    """So many acquires, renewals and releases of one lease, one client after the other, while the
    others ask in vain."""
    random = np.random.default_rng(1)
    third = np.arange(count) % 3
    process = (np.arange(count) // 3) % clients
    asked = np.arange(count) * 10 + random.integers(0, 3, count)
    answered = asked + random.integers(1, 7, count)
    lost = (third == 2) & (random.random(count) < 0.05)
    nothing = np.full(count, NOTHING)
    lasts = np.where(third == 2, nothing, 25)
    return Calls(
        ("acquire", "renew", "release"), range(int(answered.max()) + 1), third, asked, lasts,
        np.where(lost, nothing, answered), asked, np.where(lost, NEVER, answered),
        np.where(lost, OPEN, OK), process,
    )  # fmt: skip


class Streamed(NamedTuple):
    """Adds of a set, and the elements of its reads in order: of each read the first so many."""

    begun: Ints
    ended: Ints
    shown: Ints
    reads: int


def set_reads(count: int) -> Streamed:
    """So many adds, and a thousand reads between them of all that was added: on average of half."""
    random = np.random.default_rng(1)
    at = 3 * np.arange(count)
    shown = random.permuted(np.arange(count).reshape(1000, -1), axis=1).reshape(-1)
    return Streamed(at, at + 1, shown, 1000)


def read_in_order(made: Streamed) -> Decided:
    """Judge a set whose reads come one after the other and are not held."""
    elements, size = Elements(made.begun, made.ended), len(made.begun) // made.reads
    for number in range(1, made.reads + 1):
        after = int(made.ended[number * size - 1])
        if not elements.read(after, after + 1, made.shown[: number * size]):
            return Decided(False, "fast test", "duplicated")
    lost = elements.lost() or elements.stale() or not np.all(elements.stable())
    return Decided(not lost, "fast test")


def kv_calls(count: int, concurrency: int, info: float) -> Calls:
    """So many gets, appends and puts of one text."""
    asked = ModelRequest(model="kv", ops=count, concurrency=concurrency, info=info)
    ops = made(asked, KeyValue()).ops
    (calls,) = taken_of(KeyValue(), History(ops)).calls.values()
    return calls
