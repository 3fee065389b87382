"""Logs as producers and consumers use them: Jepsen's kafka workload."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from maxq.checkers.linearizability.calls import OK, Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.ties import Ties, alone
from maxq.checkers.models.logs import consumed
from maxq.checkers.models.logs.copies import ASSIGN, POLL, SEND, TXN, Part
from maxq.checkers.models.rule import Rule, illegal, legal, unsure
from maxq.checkers.models.shapes import frozen
from maxq.histories.op import HistoryError, Op


class Kafka(Rule):
    """What is sent to a log is polled by all who read on, once, and in one order.

    Operations: `send` [["send" k v]] (its completion has [offset v] for v), `poll` [["poll"]] (its
    completion has {k [[offset v] …]}), `txn` of both; `assign` and `subscribe` [k …], with
    `seek-to-beginning?` beside it, after which a process begins anew. Copies of a value that was
    sent to a key again are told apart by their offsets. Offsets may have gaps; which order calls
    have in real time is not asked (`log`).
    """

    name = "kafka"
    about = (
        "sends and polls of logs (Jepsen's kafka workload): lost, skipped, read twice or aborted"
    )
    blind = (SEND, ASSIGN)
    harmless = ("crash", "debug-topic-partitions")

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        if begun.f in (ASSIGN, "subscribe"):
            keys = begun.value if isinstance(begun.value, list) else []
            seeks = bool((begun.ext or {}).get("seek-to-beginning?"))
            yield Row(None, ASSIGN, tuple(map(_key, keys)), other=True if seeks else None)
        elif begun.f in (SEND, POLL, TXN):
            told = begun.value if ended is None or ended.value is None else ended.value
            yield Row(None, begun.f, result=tuple(_parts(begun, told)), other=_dealt(ended) or None)

    def fast(self, calls: Calls) -> Decided:
        found = consumed.anomalies([calls.call(at) for at in range(calls.size)])
        polled = calls.of(POLL, TXN) & (calls.outcome == OK)
        if not any(_of(calls.call(at), POLL) for at in np.flatnonzero(polled).tolist()):
            # Of a log that nobody read there is nothing that should have been seen.
            found = [one for one in found if one.name != consumed.UNSEEN]
            if not found:
                return unsure("never-read", "no poll shows a message")
        if not found:
            return legal()
        worst = next((one for one in found if one.lasting), found[0])
        others = ", ".join(one.name for one in found if one is not worst)
        why = f"{worst.why}; also {others}" if others else worst.why
        return (illegal if worst.lasting else unsure)(worst.name, why, *worst.calls)

    def ties(self, calls: Calls) -> Ties:
        """A poll stays with who sent what it shows, and what its process did before: without that
        it might seem to skip. A send stays with the first who polled it: it would be unseen."""
        every = [calls.call(at) for at in range(calls.size)]
        sent = {(p.key, p.value): at for at, c in enumerate(every) for p in _of(c, SEND)}
        seen = {(p.key, p.value): at for at, c in reversed([*enumerate(every)])
                for p in _of(c, POLL)}  # fmt: skip

        def needs(at: int) -> Iterator[int]:
            call = every[at]
            for part in _of(call, POLL):
                yield from (n for n in (sent.get((part.key, part.value)),) if n is not None)
            for part in _of(call, SEND):
                yield from (n for n in (seen.get((part.key, part.value)),) if n is not None)
            yield from (n for n in range(at) if every[n].process == call.process)

        return alone(calls.size, needs)


def _of(call: Call, f: str) -> list[Part]:
    return [] if call.kind == ASSIGN else consumed.parts(call, f)


def _key(key: Any) -> str:
    return str(key)  # in JSON the keys of a map are texts


def _parts(op: Op, told: object) -> Iterator[Part]:
    """The messages of an operation.

    Raises:
        HistoryError: it has another shape.
    """
    for micro in told if isinstance(told, list) else [told]:
        if not isinstance(micro, list) or not micro:
            raise HistoryError(f"op {op.index}: {op.f} wants [[f …] …], not {told!r:.100}")
        if micro[0] == SEND and len(micro) == 3:
            pair = micro[2] if isinstance(micro[2], list) and len(micro[2]) == 2 else None
            offset, value = pair or (None, micro[2])
            yield Part(SEND, _key(micro[1]), _offset(op, offset), frozen(value))
        elif micro[0] == POLL:
            yield from _polled(op, micro[1] if len(micro) > 1 and micro[1] else {})
        else:
            raise HistoryError(f"op {op.index}: neither send nor poll: {micro!r:.100}")


def _polled(op: Op, shown: Any) -> Iterator[Part]:
    if not isinstance(shown, dict) or not all(isinstance(m, list) for m in shown.values()):
        raise HistoryError(f"op {op.index}: poll wants {{k [[offset v] …]}}, not {shown!r:.100}")
    for key, messages in shown.items():
        for message in messages:
            if not isinstance(message, list) or len(message) != 2:
                raise HistoryError(f"op {op.index}: no [offset v]: {message!r:.100}")
            yield Part(POLL, _key(key), _offset(op, message[0]), frozen(message[1]))


def _offset(op: Op, offset: Any) -> int | None:
    if offset is None or type(offset) is int:
        return offset
    raise HistoryError(f"op {op.index}: no offset: {offset!r:.100}")


def _dealt(ended: Op | None) -> tuple[str, ...]:
    """The keys that were dealt to other consumers meanwhile."""
    log = (ended.ext or {}).get("rebalance-log") if ended is not None else None
    changes = [c for c in log if isinstance(c, dict)] if isinstance(log, list) else []
    dealt = [keys for c in changes if isinstance(keys := c.get("keys"), list)]
    return tuple(_key(key) for keys in dealt for key in keys)
