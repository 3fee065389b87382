"""What a history says about a log: who sent what, who read what, in which run of reading.

The first of three steps of the durability checker (this, `log_key`, `log_order`). It is one pass
over the completions that sorts their messages by key, so that the second step is a pure function of
one key's columns and the third a fold over operations; both then work on pieces of a history that
is too big for one machine.

A **reading run** is a stretch in which one process reads one key forward. It begins at the start of
the log after an explicit seek (or always, in a plain history of sends and polls where nobody ever
assigns), and somewhere in the middle otherwise. Only a run that began at or before a message can
have passed it.

Sources: history-format 13.1, 13.2.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from histories.history import History
from histories.op import HistoryError, Op
from histories.tables import Element, elements_of

Value = int | str  # ours is an integer; anything else is a payload that nobody sent

MESSAGES = frozenset(("send", "poll", "txn"))
ASSIGNMENTS = frozenset(("assign", "subscribe"))
SEEK = "seek-to-beginning?"


class MalformedError(HistoryError):
    """A value that breaks a rule of well-formedness of this workload: W9 or W10."""


class LogOp(NamedTuple):
    """A completion (or an open invocation, as `info`) with its messages taken apart."""

    at: int  # index of the completion; of the invocation while open
    begun: int  # index of the invocation
    process: int
    type: str  # ok, fail, info
    f: str
    sent: list[Element]
    polled: list[Element]
    op: Op


class Sent(NamedTuple):
    """One attempt to append a message."""

    value: Value
    offset: int | None
    op: int
    type: str
    position: int  # in its operation


class Read(NamedTuple):
    """One delivery of a message."""

    value: Value
    offset: int | None
    op: int
    ok: bool
    run: int  # which of the key's reading runs


class ReadingRun(NamedTuple):
    """See the module's text."""

    process: int
    from_start: bool
    seek: int  # index of the invocation of the seek; -1 if none


class End(NamedTuple):
    """The broker confirmed to a poll that it had reached the end of the log."""

    end: int  # the broker's max offset: the next to be written
    op: int
    begun: int
    run: int


class KeyLog:
    """Everything about one key."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.sent: list[Sent] = []
        self.read: list[Read] = []
        self.runs: list[ReadingRun] = []
        self.ends: list[End] = []


class Log(NamedTuple):
    """A history sorted for the checks.

    `proven` holds the `info` operations of which an ok poll returned a message: they happened.
    """

    ops: list[LogOp]
    keys: dict[int, KeyLog]
    proven: frozenset[int]


def read_log(history: History) -> Log:
    """Sort a history's messages by key.

    Raises:
        MalformedError: a value has the wrong shape (W9), or a message was sent twice (W10).
    """
    # An isolated old master also confirms "the end" of its own log. Only what was confirmed once
    # the last fault was over speaks of the log that is left.
    healed = max((op.index for op in history.nemesis), default=-1)
    if history.open_faults:
        healed = max(op.index for op in history)  # it never ended
    ops: list[LogOp] = []
    plain = not any(op.f in ASSIGNMENTS for op in history.clients)
    sorter = _Sorter(healed, plain=plain)
    try:
        for op in _log_ops(history):
            ops.append(op)
            sorter.take(op)
    except MalformedError:
        raise
    except HistoryError as e:
        raise MalformedError(f"W9: {e}") from None
    return Log(ops, dict(sorted(sorter.keys.items())), _proven(ops, sorter.keys))


def _log_ops(history: History) -> Iterator[LogOp]:
    """Completions in order, then open invocations."""
    for op in history.clients:
        if op.type != "invoke":
            begun = history.invocation(op)
            if op.f in MESSAGES or op.f in ASSIGNMENTS:
                yield _log_op(op, begun if begun is not None else op)
    for op in history.open_invocations:
        if op.f in MESSAGES:
            yield _log_op(op, op)


def _log_op(done: Op, begun: Op) -> LogOp:
    sent: list[Element] = []
    polled: list[Element] = []
    for e in elements_of(done, begun):
        (sent if e.kind == "sent" else polled).append(e)
    op_type = "info" if done.type == "invoke" else done.type
    process = int(done.process)  # a client's
    return LogOp(done.index, begun.index, process, op_type, done.f, sent, polled, done)


class _Sorter:
    """Takes operations in order; keeps each process's reading run of each key."""

    def __init__(self, healed: int, *, plain: bool) -> None:
        self.keys: dict[int, KeyLog] = {}
        self._healed = healed
        self._runs: dict[int, dict[int, int]] = {}  # process -> key -> run
        self._plain = plain
        self._writers: dict[tuple[int, Value], int] = {}

    def take(self, op: LogOp) -> None:
        if op.f in ASSIGNMENTS:
            self._assign(op)
            return
        for position, e in enumerate(op.sent):
            other = self._writers.setdefault((e.key, e.value), op.at)
            if other != op.at:
                raise MalformedError(
                    f"W10: value {e.value} of key {e.key} is sent by {other} and {op.at}"
                )
            self._key(e.key).sent.append(Sent(e.value, e.offset, op.at, op.type, position))
        ok = op.type == "ok"
        for e in op.polled:
            run = self._run(op, e.key)
            self._key(e.key).read.append(Read(e.value, e.offset, op.at, ok, run))
        if ok and op.op.ext is not None and "end" in op.op.ext and op.begun > self._healed:
            for key, end in _ends(op):
                run = self._run(op, key)
                self._key(key).ends.append(End(end, op.at, op.begun, run))

    def _key(self, key: int) -> KeyLog:
        log = self.keys.get(key)
        if log is None:
            log = self.keys[key] = KeyLog(key)
        return log

    def _assign(self, op: LogOp) -> None:
        if op.type == "fail":
            return
        keys = assigned_keys(op)
        old = self._runs.get(op.process, {})
        # An assignment that may or may not have happened: its seek proves nothing.
        seek = op.begun if op.type == "ok" and seeks(op) else -1
        new: dict[int, int] = {}
        for key in keys:
            if key in old and not seeks(op):
                new[key] = old[key]
            else:
                new[key] = self._begin(key, ReadingRun(op.process, seek >= 0, seek))
        self._runs[op.process] = new

    def _run(self, op: LogOp, key: int) -> int:
        runs = self._runs.setdefault(op.process, {})
        if key not in runs:
            runs[key] = self._begin(key, ReadingRun(op.process, self._plain, -1))
        return runs[key]

    def _begin(self, key: int, run: ReadingRun) -> int:
        runs = self._key(key).runs
        runs.append(run)
        return len(runs) - 1


def assigned_keys(op: LogOp) -> list[int]:
    """The keys of an assignment; none where nobody knows, so that everything is forgotten.

    Raises:
        MalformedError: the value is no list of keys.
    """
    keys = op.op.value
    if keys is None and op.type == "info":
        return []
    if type(keys) is not list and type(keys) is not tuple:
        raise MalformedError(f"W9: value of {op.at} is no list of keys: {keys!r:.100}")
    if not all(type(key) is int for key in keys):
        raise MalformedError(f"W9: value of {op.at} is no list of keys: {keys!r:.100}")
    return list(keys)


def seeks(op: LogOp) -> bool:
    """Whether an assignment goes back to the beginning."""
    return (op.op.ext or {}).get(SEEK) is True


def _ends(op: LogOp) -> Iterator[tuple[int, int]]:
    ends: Any = (op.op.ext or {})["end"]
    if not isinstance(ends, dict):
        raise MalformedError(f"W9: end of {op.at} is no map: {ends!r:.100}")
    for key, end in ends.items():
        if type(key) is not int or type(end) is not int:
            raise MalformedError(f"W9: end of {op.at} holds {key!r}: {end!r:.100}")
        yield key, end


def _proven(ops: list[LogOp], keys: dict[int, KeyLog]) -> frozenset[int]:
    seen = {key: {r.value for r in log.read if r.ok} for key, log in keys.items()}
    return frozenset(
        op.at for op in ops if op.type == "info" and any(e.value in seen[e.key] for e in op.sent)
    )
