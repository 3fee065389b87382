"""Whether each process saw, and sent, messages in the order of the log: a fold over operations.

One key is judged by itself: the state is the last value that each process read of it, and sent; it
is all that a seam between two pieces of a history needs. Only ok operations move the memory of
reads, but every completion that read something is compared with it. An assignment forgets the keys
that it does not list; a seek to the beginning also forgets the reads of those it lists (vector K11:
ours, since the seek was asked for).

Source: docs/spec/checkers.md 2.2 and 2.3.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from maxq.checkers.evidence.log import Assignment, LogOp, Step, Value
from maxq.checkers.evidence.log_key import Finding, Order

Memory = dict[int, tuple[Value, int]]  # process -> last value, and the operation that it came with


class OrderFold:
    """Feed it what is said of a key in order."""

    def __init__(self, key: int, order: Order) -> None:
        self._key = key
        self._order = order
        self._read: Memory = {}
        self._sent: Memory = {}

    def step(self, step: Step) -> Iterator[Finding]:
        """Take one operation; yield what is wrong with it."""
        if isinstance(step, Assignment):
            self._assign(step)
            return
        if step.polled:
            yield from self._polls(step)
        if step.sent and step.type != "fail":
            yield from self._sends(step)

    def _assign(self, assigned: Assignment) -> None:
        if not assigned.listed or assigned.seeks:
            self._read.pop(assigned.process, None)
        if not assigned.listed:
            self._sent.pop(assigned.process, None)

    def _polls(self, op: LogOp) -> Iterator[Finding]:
        key, order = self._key, self._order
        values = [e.value for e in op.polled]
        before = self._read.get(op.process)
        if before is not None:
            yield from external("poll", op.at, key, order, before, values[0])
        for a, b in pairwise(values):
            yield from internal("poll", op.at, key, order, (a, b), skip=key not in op.rebalanced)
        if op.type == "ok":
            self._read[op.process] = (values[-1], op.at)

    def _sends(self, op: LogOp) -> Iterator[Finding]:
        key, order = self._key, self._order
        values = [e.value for e in op.sent]
        before = self._sent.get(op.process)
        if before is not None:
            yield from external("send", op.at, key, order, before, values[0])
        for a, b in pairwise(values):
            # A gap between two sends of a transaction is another process's message: allowed.
            yield from internal("send", op.at, key, order, (a, b))
        self._sent[op.process] = (values[-1], op.at)


def external(
    kind: str, at: int, key: int, order: Order, before: tuple[Value, int], value: Value
) -> Iterator[Finding]:
    """What is wrong between the last message of one operation of a process and the first of its
    next; between two sends a gap is another process's message.

    Args:
        kind: poll or send.
        at: the later operation.
        key: the queue.
        order: its log.
        before: the last message, and the operation that it came with.
        value: the first of the later one.
    """
    old, old_op = before
    delta = order.delta(old, value)
    if delta == 1 or (delta > 1 and kind == "send"):
        return
    detail: dict[str, Any] = {"key": key, "values": [old, value], "delta": delta}
    detail["ops"] = [old_op, at]
    if delta > 1:
        detail["skipped"] = order.between(old, value)
    name = f"{kind}-skip" if delta > 1 else f"nonmonotonic-{kind}"
    yield Finding(name, key, (old_op, at), detail)


def internal(
    kind: str, at: int, key: int, order: Order, pair: tuple[Value, Value], *, skip: bool = True
) -> Iterator[Finding]:
    """What is wrong between two messages of one operation that follow one another; `skip`: a gap
    is."""
    delta = order.delta(*pair)
    if delta == 1 or (delta > 1 and not skip):
        return
    detail: dict[str, Any] = {"key": key, "values": list(pair), "delta": delta, "op": at}
    if delta > 1:
        detail["skipped"] = order.between(*pair)
    name = f"int-{kind}-skip" if delta > 1 else f"int-nonmonotonic-{kind}"
    yield Finding(name, key, (at,), detail)
