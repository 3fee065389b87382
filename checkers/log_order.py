"""Whether each process saw, and sent, messages in the order of the log: a fold over operations.

The state is the last value that each process read, and sent, per key; it is all that a seam
between two pieces of a history needs. Only ok operations move the memory of reads, but every
completion that read something is compared with it. An assignment forgets the keys that it does not
list; a seek to the beginning also forgets the reads of those it lists (vector K11: ours, since the
seek was asked for).

Source: history-format 13.3, "details that decide verdicts".
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from checkers.log import ASSIGNMENTS, LogOp, Value, assigned_keys, seeks
from checkers.log_key import Finding, Order
from histories.tables import Element

Memory = dict[int, tuple[Value, int]]  # key -> last value, and the operation that it came with


class OrderFold:
    """Feed it completions in order of index."""

    def __init__(self, orders: dict[int, Order]) -> None:
        self._orders = orders
        self._read: dict[int, Memory] = {}  # by process
        self._sent: dict[int, Memory] = {}

    def step(self, op: LogOp) -> Iterator[Finding]:
        """Take one completion; yield what is wrong with it."""
        if op.f in ASSIGNMENTS:
            self._assign(op)
            return
        if op.polled:
            yield from self._polls(op)
        if op.sent:
            yield from self._sends(op)

    def _assign(self, op: LogOp) -> None:
        if op.type == "fail":
            return
        keys = set(assigned_keys(op))
        kept = set() if seeks(op) else keys
        self._read[op.process] = _only(self._read.get(op.process, {}), kept)
        self._sent[op.process] = _only(self._sent.get(op.process, {}), keys)

    def _polls(self, op: LogOp) -> Iterator[Finding]:
        memory = self._read.setdefault(op.process, {})
        excused = _rebalanced(op)
        for key, values in _by_key(op.polled):
            order = self._orders[key]
            if key in memory:
                yield from _external("poll", op, key, order, memory[key], values[0])
            for a, b in pairwise(values):
                yield from _internal("poll", op, key, order, (a, b), skip=key not in excused)
            if op.type == "ok":
                memory[key] = (values[-1], op.at)

    def _sends(self, op: LogOp) -> Iterator[Finding]:
        if op.type == "fail":
            return
        memory = self._sent.setdefault(op.process, {})
        for key, values in _by_key(op.sent):
            order = self._orders[key]
            if key in memory:
                found = _external("send", op, key, order, memory[key], values[0])
                yield from (f for f in found if f.name == "nonmonotonic-send")
            for a, b in pairwise(values):
                # A gap between two sends of a transaction is somebody else's message: allowed.
                yield from _internal("send", op, key, order, (a, b), skip=True)
            memory[key] = (values[-1], op.at)


def _only(memory: Memory, keys: set[int]) -> Memory:
    return {key: last for key, last in memory.items() if key in keys}


def _by_key(elements: list[Element]) -> Iterable[tuple[int, list[Value]]]:
    if len(elements) == 1:
        return ((elements[0].key, [elements[0].value]),)
    keys: dict[int, list[Value]] = {}
    for e in elements:
        keys.setdefault(e.key, []).append(e.value)
    return keys.items()


def _rebalanced(op: LogOp) -> set[int]:
    log: Any = (op.op.ext or {}).get("rebalance-log") or ()
    return {key for entry in log for key in entry["keys"]}


def _external(
    kind: str, op: LogOp, key: int, order: Order, before: tuple[Value, int], value: Value
) -> Iterator[Finding]:
    old, old_op = before
    delta = order.delta(old, value)
    if delta == 1:
        return
    detail: dict[str, Any] = {"key": key, "values": [old, value], "delta": delta}
    detail["ops"] = [old_op, op.at]
    if delta > 1:
        detail["skipped"] = order.between(old, value)
    name = f"{kind}-skip" if delta > 1 else f"nonmonotonic-{kind}"
    yield Finding(name, key, (old_op, op.at), detail)


def _internal(
    kind: str, op: LogOp, key: int, order: Order, pair: tuple[Value, Value], *, skip: bool
) -> Iterator[Finding]:
    delta = order.delta(*pair)
    if delta == 1 or (delta > 1 and not skip):
        return
    detail: dict[str, Any] = {"key": key, "values": list(pair), "delta": delta, "op": op.at}
    if delta > 1:
        detail["skipped"] = order.between(*pair)
    name = f"int-{kind}-skip" if delta > 1 else f"int-nonmonotonic-{kind}"
    yield Finding(name, key, (op.at,), detail)
