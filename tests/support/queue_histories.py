"""Small histories of sends and polls: a log that is right, then edited a little, or not at all."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from maxq.histories.fault_facts import ELECT_MASTER
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

KEYS = 3


class _Writer:
    """Writes the history of a log that keeps its promises: whole operations, one at a time, but
    for a send that stays open now and then."""

    def __init__(self, rnd: Random) -> None:
        self.ops: list[Op] = []
        self._rnd = rnd
        self._logs: list[list[int]] = [[] for _ in range(KEYS)]
        self._value = 0
        self._next = {process: process for process in range(6)}  # thread -> its process
        self._at: dict[tuple[int, int], int] = {}  # of a process, in each key

    def add(self, kind: Any, process: int | str, f: str, value: Any, **ext: Any) -> None:
        at = len(self.ops)
        ext = {key.replace("_", "-"): v for key, v in ext.items()}
        self.ops.append(Op(kind, process, f, value, None, at, at * 1_000, ext or None))

    def new_process(self, thread: int) -> None:
        self._next[thread] += 10

    def send(self) -> None:
        rnd, thread = self._rnd, self._rnd.randrange(3)
        process, keys = self._next[thread], [rnd.randrange(KEYS)]
        f = "send"
        if rnd.random() < 0.15:
            f, keys = "txn", [rnd.randrange(KEYS) for _ in range(rnd.randrange(1, 4))]
        values = []
        for key in keys:
            self._value += 1
            values.append((key, self._value))
        self.add("invoke", process, f, [["send", key, value] for key, value in values])
        fate = rnd.random()
        if fate < 0.1:
            self.add("fail", process, f, [["send", key, value] for key, value in values])
            return
        happened = fate < 0.9 or rnd.random() < 0.5
        done = []
        for key, value in values:
            done.append(["send", key, [len(self._logs[key]), value]])
            if happened:
                self._logs[key].append(value)
        if fate < 0.9:
            self.add("ok", process, f, done, node="b0", broker="m")
        else:
            if fate < 0.96:
                self.add("info", process, f, [["send", key, value] for key, value in values])
            self.new_process(thread)

    def poll(self, *, whole: bool = False) -> None:
        rnd, thread = self._rnd, 3 + self._rnd.randrange(3)
        process = self._next[thread]
        self.add("invoke", process, "poll", [["poll"]])
        if rnd.random() < 0.1 and not whole:
            self.add("fail", process, "poll", [["poll"]])
            return
        found, ends = {}, {}
        for key in rnd.sample(range(KEYS), rnd.randrange(1, KEYS + 1)):
            at = self._at.get((process, key), 0)
            upto = len(self._logs[key]) if whole else min(at + rnd.randrange(4),
                                                          len(self._logs[key]))  # fmt: skip
            if upto > at:
                found[key] = [[o, self._logs[key][o]] for o in range(at, upto)]
            self._at[process, key] = upto
            if upto == len(self._logs[key]):
                ends[key] = upto
        self.add("ok", process, "poll", [["poll", found]], node="b0", broker="m", end=ends)

    def assign(self) -> None:
        rnd, thread = self._rnd, 3 + self._rnd.randrange(3)
        process, seeks = self._next[thread], self._rnd.random() < 0.6
        keys = rnd.sample(range(KEYS), rnd.randrange(1, KEYS + 1))
        ext: dict[str, Any] = {"seek-to-beginning?": True} if seeks else {}
        self.add("invoke", process, "assign", keys, **ext)
        kind = "ok" if rnd.random() < 0.9 else "info"
        self.add(kind, process, "assign", keys, **ext)
        if kind == "info":
            self.new_process(thread)
            return
        for key in range(KEYS):
            if key not in keys or seeks:
                self._at[process, key] = 0

    def assign_oddly(self) -> None:
        """Also of who sends, or of no keys; with an outcome that nobody knows, or none."""
        rnd = self._rnd
        thread = rnd.choice((0, 1, 2, 3, 3, 4, 4, 5, 5))
        process, seeks = self._next[thread], rnd.random() < 0.6
        keys = rnd.sample(range(KEYS), rnd.randrange(KEYS + 1))
        ext: dict[str, Any] = {"seek-to-beginning?": True} if seeks else {}
        f = rnd.choice(("assign", "assign", "subscribe"))
        self.add("invoke", process, f, keys, **ext)
        kind = rnd.choices(("ok", "info", "fail", None), (80, 10, 5, 5))[0]
        if kind is not None:
            unknown = kind == "info" and rnd.random() < 0.5
            self.add(kind, process, f, None if unknown else keys, **ext)
        if kind is None or (kind == "info" and rnd.random() < 0.7):  # else it goes on, oddly
            self.new_process(thread)
        elif kind != "fail":
            for key in range(KEYS):
                if key not in keys or seeks or rnd.random() < 0.2:  # which then is wrong
                    self._at[process, key] = 0

    def nemesis(self, f: str) -> None:
        self.add("info", NEMESIS, f, None)
        self.add("info", NEMESIS, f, {"b0-0": {"holds": True}})


def queue_history(seed: int, *, odd: bool = False) -> History:
    """One of them: up to some eighty operations, and no, one or two edits; with many odd
    assignments, or with some that are as clients make them."""
    rnd = Random(seed)
    writer = _Writer(rnd)
    for _ in range(rnd.randrange(3, 30)):
        choose = 0.9 if odd and rnd.random() < 0.15 else rnd.random()
        if choose < 0.5:
            writer.send()
        elif choose < 0.9:
            writer.poll(whole=rnd.random() < 0.2)
        elif choose < 0.97 and odd:
            writer.assign_oddly()
        elif choose < 0.97 and seed % 3:
            writer.assign()
        else:
            writer.nemesis(rnd.choice(("kill", ELECT_MASTER)))
    ops = writer.ops
    for _ in range(rnd.randrange(3)):
        rnd.choice(_EDITS)(ops, rnd)
    return History(ops)


def _edited(ops: list[Op], rnd: Random, change: Callable[[list[Any]], None]) -> None:
    """Change the messages of one operation."""
    messages = [at for at, op in enumerate(ops)
                if op.type == "ok" and op.f in ("send", "poll", "txn") and op.value]  # fmt: skip
    if messages:
        at = rnd.choice(messages)
        value = msgspec.msgpack.decode(msgspec.msgpack.encode(ops[at].value), strict=False)
        pairs = [m[2] for m in value if m[0] == "send"]
        for micro in value:
            if micro[0] == "poll":
                pairs += [pair for found in micro[1].values() for pair in found]
        pairs = [pair for pair in pairs if isinstance(pair, list)]
        if pairs:
            change(rnd.choice(pairs))
        ops[at] = msgspec.structs.replace(ops[at], value=value)


def _offset(ops: list[Op], rnd: Random) -> None:
    def change(pair: list[Any]) -> None:
        pair[0] = max(0, (pair[0] or 0) + rnd.choice((-1, 1)))

    _edited(ops, rnd, change)


def _value(ops: list[Op], rnd: Random) -> None:
    def change(pair: list[Any]) -> None:
        pair[1] = max(1, pair[1] + rnd.choice((-1, 1, 50)))

    _edited(ops, rnd, change)


def _unknown_offset(ops: list[Op], rnd: Random) -> None:
    def change(pair: list[Any]) -> None:
        pair[0] = None

    _edited(ops, rnd, change)


def _dropped(ops: list[Op], rnd: Random) -> None:
    """Of a poll one message is not there."""
    polls = [at for at, op in enumerate(ops) if op.type == "ok" and op.f == "poll"]
    if polls:
        at = rnd.choice(polls)
        found = {key: list(pairs) for key, pairs in ops[at].value[0][1].items()}
        for pairs in found.values():
            if pairs:
                pairs.pop(rnd.randrange(len(pairs)))
        ops[at] = msgspec.structs.replace(ops[at], value=[["poll", found]])


def _failed(ops: list[Op], rnd: Random) -> None:
    """What was acknowledged had failed, or the other way round."""
    sends = [at for at, op in enumerate(ops) if op.type in ("ok", "fail") and op.f == "send"]
    if sends:
        at = rnd.choice(sends)
        other: Any = "fail" if ops[at].type == "ok" else "ok"
        ops[at] = msgspec.structs.replace(ops[at], type=other)


_EDITS = (_offset, _value, _unknown_offset, _dropped, _dropped, _failed)
