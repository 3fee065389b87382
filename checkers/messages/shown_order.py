"""Whether consumers were shown each producer's messages in the order in which it sent them.

All messages of a sharding key are in one queue, so what is kept for each producer and queue is kept
for each sharding key. A consumer may be shown a message again: that says nothing. Where a log or a
consumer went backwards by offsets this is said by that name (`log_order`) and not again: what is
left are messages of which an offset is not known, or between which one stands that is not.

Source: docs/spec/checkers.md 2.3.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from maxq.checkers.evidence.log import Assignment, Step, Value
from maxq.checkers.evidence.log_key import Finding

ORDER = "order"
BACKWARDS = frozenset((
    "nonmonotonic-poll", "int-nonmonotonic-poll", "nonmonotonic-send", "int-nonmonotonic-send",
))  # fmt: skip


class _Sent(NamedTuple):
    """By whom a message was sent, since which assignment, as which of all, by which operation."""

    producer: int
    since: int
    number: int
    op: int


class _Shown(NamedTuple):
    sent: _Sent
    value: Value
    op: int


def out_of_order(key: int, steps: Sequence[Step], found: Iterable[Finding]) -> Iterator[Finding]:
    """What a consumer was shown of one producer in another order than it was sent.

    Args:
        key: the queue.
        steps: what is said of it, in order.
        found: what is known already of its order.
    """
    process = {step.at: step.process for step in steps}
    blamed = {process[op] for f in found if f.name in BACKWARDS for op in f.ops}
    sent = dict(_sends(steps))
    seen: dict[int, set[Value]] = defaultdict(set)
    latest: dict[int, dict[tuple[int, int], _Shown]] = defaultdict(dict)
    for step in steps:
        consumer = step.process
        if isinstance(step, Assignment):
            if step.seeks or not step.listed:
                seen.pop(consumer, None)
                latest.pop(consumer, None)
            continue
        for e in step.polled if step.type == "ok" else ():
            one = sent.get(e.value)
            if one is None or e.value in seen[consumer]:
                continue
            seen[consumer].add(e.value)
            before = latest[consumer].get(one[:2])
            if before is None or before.sent.number < one.number:
                latest[consumer][one[:2]] = _Shown(one, e.value, step.at)
            elif blamed.isdisjoint((consumer, one.producer)):
                yield _finding(key, _Shown(one, e.value, step.at), before)


def _sends(steps: Sequence[Step]) -> Iterator[tuple[Value, _Sent]]:
    since: dict[int, int] = {}
    numbers = count()
    for step in steps:
        if isinstance(step, Assignment):
            if not step.listed:
                since[step.process] = step.at
        elif step.type != "fail":
            first = since.get(step.process, -1)
            for e in step.sent:
                yield e.value, _Sent(step.process, first, next(numbers), step.at)


def _finding(key: int, late: _Shown, before: _Shown) -> Finding:
    detail = {
        "key": key, "values": [late.value, before.value], "writer": late.sent.op, "reader": late.op,
        "producer": late.sent.producer,
    }  # fmt: skip
    ops = {late.sent.op, before.sent.op, before.op, late.op}
    return Finding(ORDER, key, tuple(sorted(ops)), detail)
