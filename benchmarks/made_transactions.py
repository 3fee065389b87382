"""Columns of transactions as a strictly serializable database answers them, for measurements."""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import NOTHING, OK, Ints, Mask
from maxq.checkers.transactions.columns import UNREAD, Transactions

CONCURRENCY = 30
PARTS_MAX = 4
KEYS = 10  # in use at a time
EPOCH = 256  # transactions until other keys are: some 32 writes of each


class Moments(NamedTuple):
    """When calls began and ended (positions, of each its own), and who made them."""

    begun: Ints
    ended: Ints
    process: Ints


def moments(random: np.random.Generator, count: int, concurrency: int) -> Moments:
    """Calls that take effect one after the other, each around its own moment."""
    at = np.arange(count, dtype=np.float64)
    reach = (concurrency - 1) / 2
    times = np.concatenate([at - random.random(count) * reach, at + random.random(count) * reach])
    place = np.empty(2 * count, np.int64)
    place[np.argsort(times, kind="stable")] = np.arange(2 * count)
    return Moments(place[:count], place[count:], np.arange(count) % concurrency)


class _Drawn(NamedTuple):
    """`nth` says of each part how many writes of its key stand before it."""

    first: Ints
    writes: Mask
    key: Ints
    nth: Ints


def _drawn(random: np.random.Generator, count: int) -> _Drawn:
    parts = random.integers(1, PARTS_MAX + 1, count)
    first = np.append(0, np.cumsum(parts))
    txn = np.repeat(np.arange(count), parts)
    writes = random.random(len(txn)) < 0.5
    key = txn // EPOCH * KEYS + random.integers(0, KEYS, len(txn))
    order = np.argsort(key, kind="stable")
    total = np.append(0, np.cumsum(writes[order]))
    heads = np.searchsorted(key[order], key[order])
    nth = np.empty(len(txn), np.int64)
    nth[order] = total[:-1] - total[heads]
    return _Drawn(first, writes, key, nth)


def _columns(
    random: np.random.Generator, drawn: _Drawn, value: Ints, length: Ints, *, lists: bool
) -> Transactions:
    count = len(drawn.first) - 1
    when = moments(random, count, CONCURRENCY)
    order = np.argsort(when.begun, kind="stable")  # in order of begins, as from a history
    sizes = np.diff(drawn.first)[order]
    first = np.append(0, np.cumsum(sizes))
    part = np.arange(first[-1]) + np.repeat(drawn.first[:-1][order] - first[:-1], sizes)
    length = length[part]
    # List after list, as a history has them; the n-th value of every key is n.
    read = np.maximum(length, 0)
    start = np.cumsum(read) - read
    elements = np.arange(int(read.sum())) - np.repeat(start, read)
    return Transactions(
        when.begun[order], when.ended[order], np.full(count, OK), when.process[order], first,
        drawn.writes[part], drawn.key[part], value[part], start, length,
        elements if lists else elements[:0],
        range(int(drawn.key.max()) + 1), range(1, int(drawn.nth.max()) + 2),
    )  # fmt: skip


def list_append(count: int) -> Transactions:
    """So many transactions that append to lists and read them."""
    random = np.random.default_rng(1)
    drawn = _drawn(random, count)
    length = np.where(drawn.writes, UNREAD, drawn.nth)
    value = np.where(drawn.writes, drawn.nth, NOTHING)
    return _columns(random, drawn, value, length, lists=True)


def rw_register(count: int, *, read_first: bool) -> Transactions:
    """So many transactions that write and read registers; `read_first`: each write after a read of
    its key, by which the order of versions is known."""
    random = np.random.default_rng(1)
    drawn = _drawn(random, count)
    if read_first:
        drawn = _with_reads(drawn)
    value = np.where(drawn.writes, drawn.nth, drawn.nth - 1)  # -1 is NOTHING
    return _columns(random, drawn, value, np.where(drawn.writes, UNREAD, 0), lists=False)


def _with_reads(drawn: _Drawn) -> _Drawn:
    """Before each write a read of its key."""
    times = 1 + drawn.writes
    at = np.repeat(np.arange(len(times)), times)
    first = np.append(0, np.cumsum(times))
    second = np.arange(len(at)) - first[at] == times[at] - 1
    return _Drawn(first[drawn.first], drawn.writes[at] & second, drawn.key[at], drawn.nth[at])
