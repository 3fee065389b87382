"""Wrong answers about messages, locks and ids: what grows with the load."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec

from maxq.checkers.core.api import Context
from maxq.checkers.power.wrong import Changes, Plant, Wrong, answers, edited, with_value
from maxq.histories.history import History
from maxq.histories.observed import (
    ACQUIRE,
    APPLY_ID,
    FETCH_OFFSET,
    NOT_GRANTED,
    OBSERVE_REPLICA,
    RELEASE,
    RENEW,
    REPLICA_LOG,
)
from maxq.histories.op import Op

NEVER_SENT = 1 << 52  # no client sends such a value
EVERY_MESSAGES = ("S6", "S9", "S10", "S11", "S12", "S16")


def _polls(history: History) -> list[Op]:
    return [op for op in history.clients if op.f == "poll" and op.type == "ok" and op.value]


def _messages(op: Op) -> dict[int, list[list[Any]]]:
    """What a poll returned, by key."""
    for micro in op.value or ():
        if len(micro) > 1 and isinstance(micro[1], dict):
            return dict(micro[1])
    return {}


def _polled(op: Op, messages: dict[int, list[list[Any]]]) -> Op:
    return with_value(op, [["poll", messages]])


def _sent(history: History) -> Iterator[tuple[Op, int, int, Any]]:
    """Acknowledged sends of one message, with key, offset and value."""
    for op in history.clients:
        if op.f == "send" and op.type == "ok" and len(op.value or ()) == 1:
            match op.value[0]:
                case [_, int(key), [int(offset), value]]:
                    yield op, key, offset, value


def _lost(history: History, context: Context) -> Iterator[Plant]:
    readers: dict[tuple[int, Any], list[Op]] = defaultdict(list)
    for op in _polls(history):
        for key, found in _messages(op).items():
            for _, value in found:
                readers[key, value].append(op)
    for op, key, _, value in _sent(history):
        yield Plant(op.index, partial(_without, readers[key, value], key, value))


def _without(readers: list[Op], key: int, value: Any) -> Changes:
    changes = {}
    for op in readers:
        messages = _messages(op)
        messages[key] = [pair for pair in messages[key] if pair[1] != value]
        changes[op.index] = _polled(op, {k: found for k, found in messages.items() if found})
    return changes


def _another_message(history: History, context: Context) -> Iterator[Plant]:
    for op in _polls(history):
        for key, found in _messages(op).items():
            if found:
                yield Plant(op.index, partial(_first_is, op, key, NEVER_SENT + op.index))
                break


def _first_is(op: Op, key: int, value: Any) -> Changes:
    messages = _messages(op)
    messages[key] = [[messages[key][0][0], value], *messages[key][1:]]
    return {op.index: _polled(op, messages)}


def _twice(history: History, context: Context) -> Iterator[Plant]:
    for op in _polls(history):
        for key, found in _messages(op).items():
            if len(found) > 1:
                yield Plant(op.index, partial(_second_is_first, op, key))
                break


def _second_is_first(op: Op, key: int) -> Changes:
    messages = _messages(op)
    first, second, *rest = messages[key]
    messages[key] = [first, [second[0], first[1]], *rest]
    return {op.index: _polled(op, messages)}


def _exchanged(history: History, context: Context) -> Iterator[Plant]:
    """Two sends of one producer that follow each other have the offset of the other one."""
    by_producer: dict[tuple[Any, int], list[tuple[Op, int, Any]]] = defaultdict(list)
    readers: dict[tuple[int, Any], list[Op]] = defaultdict(list)
    for op, key, offset, value in _sent(history):
        by_producer[op.process, key].append((op, offset, value))
    for op in _polls(history):
        for key, found in _messages(op).items():
            for _, value in found:
                readers[key, value].append(op)
    for (_, key), sends in by_producer.items():
        for first, second in pairwise(sends):
            read = {op.index: op for s in (first, second) for op in readers[key, s[2]]}
            yield Plant(second[0].index, partial(_exchange, key, first, second, read))


def _exchange(
    key: int, a: tuple[Op, int, Any], b: tuple[Op, int, Any], readers: dict[int, Op]
) -> Changes:
    other = {a[2]: b[2], b[2]: a[2]}
    changes = {
        a[0].index: with_value(a[0], [["send", key, [b[1], a[2]]]]),
        b[0].index: with_value(b[0], [["send", key, [a[1], b[2]]]]),
    }
    for at, op in readers.items():
        messages = _messages(op)
        messages[key] = [[offset, other.get(v, v)] for offset, v in messages[key]]
        changes[at] = _polled(op, messages)
    return changes


def _lacking(history: History, context: Context) -> Iterator[Plant]:
    acknowledged = {(key, value) for _, key, _, value in _sent(history)}
    for _, op in answers(history, REPLICA_LOG):
        for at, (key, _, value) in enumerate(op.value.get("records", ())):
            if (key, value) in acknowledged:
                yield Plant(op.index, partial(_no_record, op, at))


def _no_record(op: Op, at: int) -> Changes:
    records = op.value["records"]
    return {op.index: with_value(op, {**op.value, "records": [*records[:at], *records[at + 1 :]]})}


def _other_bytes(history: History, context: Context) -> Iterator[Plant]:
    for _, op in answers(history, REPLICA_LOG):
        for at in range(len(op.value.get("digests", ()))):
            yield Plant(op.index, partial(_digest, op, at))


def _digest(op: Op, at: int) -> Changes:
    digests = list(op.value["digests"])
    digests[at] = digests[at][::-1]
    return {op.index: with_value(op, {**op.value, "digests": digests})}


def _second_lock(history: History, context: Context) -> Iterator[Plant]:
    """A refused client is granted the lock that another one surely holds."""
    held: dict[Any, Op] = {}  # by lock: the last grant that was not given back
    for op in history.clients:
        if op.f == RELEASE and op.type == "invoke":
            if op.value in held and held[op.value].process == op.process:
                del held[op.value]
        elif op.f in (ACQUIRE, RENEW) and op.type == "ok":
            held[op.value] = op
        elif op.f == ACQUIRE and op.type == "fail" and op.error == NOT_GRANTED:
            begun, grant = history.invocation(op), held.get(op.value)
            if begun is None or grant is None or grant.process == op.process:
                continue
            asked = history.invocation(grant)
            lease_ns = context.client_lease_ns
            if asked is not None and grant.index < begun.index and op.time < asked.time + lease_ns:
                yield Plant(op.index, partial(_granted, op))


def _granted(op: Op) -> Changes:
    return {op.index: msgspec.structs.replace(op, type="ok", error=None)}


def _given_twice(history: History, context: Context) -> Iterator[Plant]:
    before: dict[Any, Any] = {}  # by set: the last id that was given, and to whom
    for _, op in answers(history, APPLY_ID):
        name, code, number = (op.value.get(k) for k in ("set", "code", "id"))
        known = before.get(name)
        if known is not None and known[0] != code:
            yield Plant(op.index, partial(_id, op, known[1]))
        before[name] = code, number


def _changed_id(history: History, context: Context) -> Iterator[Plant]:
    seen = set[str]()
    for _, op in answers(history, OBSERVE_REPLICA):
        if op.value.get("id") is not None:
            if op.value.get("node") in seen:
                yield Plant(op.index, partial(_id, op, op.value["id"] + 100))
            seen.add(str(op.value.get("node")))


def _id(op: Op, number: int) -> Changes:
    return {op.index: with_value(op, edited(op.value, ("id",), number))}


def _forgotten_offset(history: History, context: Context) -> Iterator[Plant]:
    for op in history.clients:
        match op.value:
            case [key, int(offset)] if op.f == FETCH_OFFSET and op.type == "ok" and offset > 0:
                yield Plant(op.index, partial(_fetched, op, key))


def _fetched(op: Op, key: Any) -> Changes:
    return {op.index: with_value(op, [key, 0])}


WRONGS = (
    Wrong(
        "an acknowledged message is in no reading after its send",
        ("S6", *EVERY_MESSAGES), "durability", _lost,
    ),
    Wrong(
        "a reader is given a message that nobody sent",
        ("S11", *EVERY_MESSAGES), "durability", _another_message,
    ),
    Wrong(
        "a reader is given one message at two offsets",
        ("S11", *EVERY_MESSAGES), "durability", _twice,
    ),
    Wrong(
        "two messages of one producer stand in the wrong order",
        ("S12", *EVERY_MESSAGES), "durability", _exchanged,
    ),
    Wrong(
        "the log of one replica lacks an acknowledged message",
        ("S9",), "replicas", _lacking,
    ),
    Wrong(
        "64 KiB of one replica's log are other bytes",
        ("S8",), "replicas", _other_bytes,
    ),
    Wrong(
        "a lock that a client holds is granted to a second one",
        ("L2", "L1"), "locks", _second_lock,
    ),
    Wrong(
        "a controller gives an id that another broker has",
        ("S1",), "broker-ids", _given_twice,
    ),
    Wrong(
        "a broker says another id than before",
        ("S2", "S1"), "broker-ids", _changed_id,
    ),
    Wrong(
        "a consumer group's offset is 0 again",
        ("O1",), "offsets", _forgotten_offset,
    ),
)  # fmt: skip
