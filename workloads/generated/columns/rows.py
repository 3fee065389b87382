"""Rows of a history by columns, with the texts that our writers give them.

An operation is never an object here where there may be millions: a batch has a column for each
field, its values as the journal's text (`maxq.histories.text`). Times are ns.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maxq.histories.op import NEMESIS, Op
from maxq.histories.text import TYPES, encode_value

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

INVOKE, OK, FAIL, INFO = (TYPES.index(name) for name in ("invoke", "ok", "fail", "info"))
OPEN = -1  # as the type of a completion: there is none
NAMES = ("run", NEMESIS)  # processes that are no clients: -1, -2
_NUMBER = {name: -1 - at for at, name in enumerate(NAMES)}


class Act(NamedTuple):
    """An operation in full: its invocation, and its completion if it has one."""

    begun: Op
    done: Op | None = None


class Batch(NamedTuple):
    """Rows in order of the history. `process` is negative where it is one of `NAMES`; `value`,
    `ext` (without its braces) and `error` are texts, empty for none; `pair` is the position of the
    other half, -1 for none."""

    time: Ints
    type: Ints
    process: Ints
    f: list[str]
    value: list[str]
    ext: list[str]
    error: list[str]
    pair: Ints

    def __len__(self) -> int:
        return len(self.time)


class Ops(NamedTuple):
    """Operations by columns, in any order; `type` is that of the completion, or `OPEN`."""

    inv: Ints
    ret: Ints
    type: Ints
    process: Ints
    f: list[str]
    begun: list[str]  # values
    done: list[str]
    begun_ext: list[str]
    done_ext: list[str]
    error: list[str]


class Laid(NamedTuple):
    """A batch, and where in it each operation's invocation and completion are (-1: none); of acts
    likewise."""

    batch: Batch
    begun_at: Ints
    done_at: Ints
    acts_at: list[tuple[int, int]]


def count_rows(types: Ints, acts: Sequence[Act]) -> int:
    """How many rows operations and acts have."""
    closed = int(np.count_nonzero(types != OPEN))
    return len(types) + closed + sum(1 + (a.done is not None) for a in acts)


def lay_out(ops: Ops | None, acts: Sequence[Act]) -> Laid:
    """Put operations and acts into the order of their times."""
    extra = [op for a in acts for op in (a.begun, a.done) if op is not None]
    if ops is None:
        return _laid_acts(extra, acts)
    n = len(ops.inv)
    closed = np.flatnonzero(ops.type != OPEN)
    c = len(closed)
    times = np.concatenate((ops.inv, ops.ret[closed], np.array([o.time for o in extra], np.int64)))
    order = np.argsort(times, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    done_at = np.full(n, -1, np.int64)
    done_at[closed] = place[n : n + c]
    begun_at = place[:n]
    pair = np.full(len(order), -1, np.int64)
    pair[begun_at] = done_at
    pair[done_at[closed]] = begun_at[closed]
    acts_at, at = [], n + c
    for a in acts:
        first, last = int(place[at]), -1
        at += 1
        if a.done is not None:
            last = int(place[at])
            at += 1
            pair[first], pair[last] = last, first
        acts_at.append((first, last))
    listed, rest = closed.tolist(), [texts_of(o) for o in extra]
    whole = c == n
    columns = [
        begun + (done if whole else [done[i] for i in listed]) + [r[k] for r in rest]
        for k, (begun, done) in enumerate(
            (
                (ops.f, ops.f),
                (ops.begun, ops.done),
                (ops.begun_ext, ops.done_ext),
                ([""] * n, ops.error),
            )
        )
    ]
    chosen = order.tolist()
    f, value, ext, error = ([column[i] for i in chosen] for column in columns)
    types = np.concatenate(
        (np.full(n, INVOKE, np.int64), ops.type[closed], np.array([type_of(o) for o in extra]))
    ).astype(np.int64)
    processes = np.concatenate(
        (ops.process, ops.process[closed], np.array([process_of(o) for o in extra], np.int64))
    )
    batch = Batch(times[order], types[order], processes[order], f, value, ext, error, pair)
    return Laid(batch, begun_at, done_at, acts_at)


def _laid_acts(extra: list[Op], acts: Sequence[Act]) -> Laid:
    none = np.empty(0, np.int64)
    empty = Ops(none, none, none, none, [], [], [], [], [], [])
    return lay_out(empty, acts) if extra else Laid(_EMPTY, none, none, [])


def type_of(op: Op) -> int:
    """The number of a type."""
    return TYPES.index(op.type)


def process_of(op: Op) -> int:
    """A process as a number."""
    return op.process if isinstance(op.process, int) else _NUMBER[op.process]


def texts_of(op: Op) -> tuple[str, str, str, str]:
    """An operation's kind, value, other fields (sorted) and error, as texts."""
    value = "" if op.value is None else text(op.value)
    ext = text(dict(sorted(op.ext.items())))[1:-1] if op.ext else ""
    return op.f, value, ext, "" if op.error is None else text(op.error)


def text(value: Any) -> str:
    """A value as the journal writes it."""
    return encode_value(value).decode()


_NOTHING = np.empty(0, np.int64)
_EMPTY = Batch(_NOTHING, _NOTHING, _NOTHING, [], [], [], [], _NOTHING)
