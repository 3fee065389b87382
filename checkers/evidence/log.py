"""What a history says about a log: who sent what, who read what, in which run of reading.

The first of three steps of the durability checker (this, `log_key`, `log_order`). An event becomes
a `LogOp` for each key that it touches, and a key's `LogOp`s become its columns, so that the other
two steps are pure functions of one key and can work on pieces of a history that is too big for one
machine. An assignment is a row of each key that it lists. Of other keys its process forgets what it
knew: when processes were assigned something is known to all.

A **reading run** is the time in which one process reads one key forward. It begins at the start of
the log after an explicit seek (or always, in a plain history of sends and polls where no process
ever assigns), and somewhere in the middle otherwise. Only a run that began at or before a message
can have passed it.

Sources: docs/spec/history-format.md 12.1, docs/spec/checkers.md 2.1.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from maxq.checkers.core.api import MalformedError
from maxq.checkers.core.elements import Element, elements_of
from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.quiescence import after_faults
from maxq.checkers.evidence.reigns import NO_UNREST, Unrest, unrest_of
from maxq.checkers.evidence.stores.trims import Expiry, expiries, trims_of
from maxq.histories.fault_facts import ELECT_MASTER
from maxq.histories.history import NEVER_REASSIGNED, History, Reassigned
from maxq.histories.observed import ASSIGNMENTS, SEEK
from maxq.histories.op import Op

Value = int | str  # ours is an integer; anything else is a payload that no client sent

MESSAGES = frozenset(("send", "poll", "txn"))
KINDS = MESSAGES | ASSIGNMENTS  # all that says something of a log


class LogOp(NamedTuple):
    """A completion (or an open invocation, as `info`) with its messages taken apart.

    Of an operation on several keys there is one for each, and `shared` says so.
    """

    at: int  # index of the completion; of the invocation while open
    begun: int  # index of the invocation
    process: int
    type: str  # ok, fail, info
    sent: list[Element]
    polled: list[Element]
    open: bool = False
    end: int | None = None  # the confirmed end of the log
    rebalanced: frozenset[int] = frozenset()  # keys
    shared: bool = False
    mixed: bool = False  # whether it both sent and polled, on whichever keys
    node: str | None = None  # the broker set that answered, of an ok one; and which broker of it
    broker: str | None = None


class Assignment(NamedTuple):
    """A process now reads a key; or others (not `listed`), and forgets what it knew of this one."""

    at: int
    begun: int
    process: int
    ok: bool
    seeks: bool
    listed: bool = True
    open: bool = False  # only completions are assignments


class Sent(NamedTuple):
    """One attempt to append a message."""

    value: Value
    offset: int | None
    op: int
    type: str
    begun: int = -1  # index of the invocation


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
    """Everything about one key. `elected`: when (index) a replica was made master at the end.
    `expired`: what of it may have been deleted for its age."""

    def __init__(
        self, key: int, elected: tuple[int, ...] = (), expired: tuple[Expiry, ...] = ()
    ) -> None:
        self.key = key
        self.elected = elected
        self.expired = expired
        self.sent: list[Sent] = []
        self.read: list[Read] = []
        self.runs: list[ReadingRun] = []
        self.ends: list[End] = []


class LogFacts(NamedTuple):
    """What every key must know: the last operation of the nemesis, and when processes began to read
    other keys.

    In a `plain` history no process ever assigns. `elected`: when replicas were made master in turn
    after that, as indices of completions. `unrest`: when another master may have been elected.
    `expired`: what brokers may have deleted for its age, by key.
    """

    healed: int
    plain: bool
    reassigned: Reassigned = NEVER_REASSIGNED
    elected: tuple[int, ...] = ()
    unrest: Unrest = NO_UNREST
    expired: Mapping[int, tuple[Expiry, ...]] = {}


def log_facts(history: History) -> LogFacts:
    """Find them in the small part of a history."""
    # An isolated old master also confirms "the end" of its own log. Only what was confirmed once
    # the last fault was over speaks of the log that is left.
    # An election after that disturbs no node.
    healed = after_faults(history).at
    plain = all(f not in ASSIGNMENTS for f, _ in history.totals)
    elected = tuple(op.index for op in history.nemesis if op.f == ELECT_MASTER)[1::2]
    expired = expiries(trims_of(history))
    return LogFacts(healed, plain, history.reassigned, elected, unrest_of(history), expired)


Step = LogOp | Assignment


def steps_said(event: Event, healed: int) -> Iterable[tuple[int, Step]]:
    """What an operation says of each key.

    Raises:
        HistoryError: its value has the wrong shape (W9).
    """
    done, begun = event.op, event.begun
    if done.f in ASSIGNMENTS:
        return _assigned(event)
    if done.type == "invoke" and not event.open:
        return ()
    sent: list[Element] = []
    polled: list[Element] = []
    for e in elements_of(done, begun):
        (sent if e.kind == "sent" else polled).append(e)
    at = done.index
    begun_at = at if begun is None else begun.index
    ext = done.ext or {}
    rebalanced = _rebalanced(ext) if "rebalance-log" in ext else _NO_KEYS
    op_type = "info" if event.open else done.type
    # By position, for there is one for each operation of a history.
    op = LogOp(at, begun_at, int(done.process), op_type, sent, polled, event.open, None, rebalanced,
               mixed=bool(sent and polled), node=ext.get("node"),
               broker=ext.get("broker"))  # fmt: skip
    confirmed = done.type == "ok" and "end" in ext and begun_at > healed
    return _by_key(op, dict(ends_said(at, ext["end"])) if confirmed else _NO_ENDS)


def _assigned(event: Event) -> Iterable[tuple[int, Assignment]]:
    done, begun = event.op, event.begun
    if done.type not in ("ok", "info"):
        return ()
    index = done.index if begun is None else begun.index
    seeks = (done.ext or {}).get(SEEK) is True
    one = Assignment(done.index, index, int(done.process), done.type == "ok", seeks)
    return [(key, one) for key in sorted(_assigned_keys(done))]


def _assigned_keys(done: Op) -> frozenset[int]:
    """The keys of an assignment; none where they are unknown, so that everything is forgotten."""
    keys = done.value
    if keys is None and done.type == "info":
        return frozenset()
    if type(keys) is not list and type(keys) is not tuple:
        raise MalformedError(f"W9: value of {done.index} is no list of keys: {keys!r:.100}")
    if not all(type(key) is int for key in keys):
        raise MalformedError(f"W9: value of {done.index} is no list of keys: {keys!r:.100}")
    return frozenset(keys)


_NO_ENDS: Mapping[int, int] = {}
_NO_KEYS: frozenset[int] = frozenset()


def _by_key(op: LogOp, ends: Mapping[int, int]) -> Iterable[tuple[int, LogOp]]:
    if len(op.sent) == 1 and not op.polled and not ends:  # most are
        return ((op.sent[0].key, op),)
    keys = {e.key for e in op.polled}
    if op.sent or ends:
        keys.update([e.key for e in op.sent], ends)
    if len(keys) == 1:
        (key,) = keys
        return ((key, op._replace(end=ends[key]) if ends else op),)
    return [
        (
            key,
            op._replace(
                sent=[e for e in op.sent if e.key == key],
                polled=[e for e in op.polled if e.key == key],
                end=ends.get(key),
                shared=True,
            ),
        )
        for key in sorted(keys)
    ]


def _rebalanced(ext: dict[str, Any]) -> frozenset[int]:
    log: Any = ext["rebalance-log"] or ()
    return frozenset(key for entry in log for key in entry["keys"])


def ends_said(at: int, ends: Any) -> Iterator[tuple[int, int]]:
    """The confirmed end of each key's log, as an operation has them.

    Raises:
        MalformedError: they are no map of numbers (W9).
    """
    if not isinstance(ends, dict):
        raise MalformedError(f"W9: end of {at} is no map: {ends!r:.100}")
    for key, end in ends.items():
        if type(key) is not int or type(end) is not int:
            raise MalformedError(f"W9: end of {at} holds {key!r}: {end!r:.100}")
        yield key, end


_RANK = attrgetter("open", "at")  # what never completed comes last


def steps_of(rows: Sequence[Step], facts: LogFacts) -> list[Step]:
    """What is said of a key, and when its processes were assigned others, in order of judgement."""
    steps = list(rows)
    if facts.reassigned.at:
        listed = {row.at for row in rows if isinstance(row, Assignment)}
        others = facts.reassigned.by({row.process for row in rows})
        steps += [
            Assignment(at, at, process, ok=True, seeks=False, listed=False)
            for process, at in others
            if at not in listed
        ]
    if len(steps) > len(rows) or any(row.open for row in rows):
        steps.sort(key=_RANK)
    return steps


def read_key(key: int, steps: Iterable[Step], facts: LogFacts) -> KeyLog:
    """The columns of one key.

    Raises:
        MalformedError: a message was sent twice (W10).
    """
    log = KeyLog(key, facts.elected, facts.expired.get(key, ()))
    runs: dict[int, int] = {}  # process -> its reading run
    writers: dict[Value, int] = {}

    def begin(run: ReadingRun) -> int:
        log.runs.append(run)
        return len(log.runs) - 1

    def run_of(process: int) -> int:
        if process not in runs:
            runs[process] = begin(ReadingRun(process, facts.plain, -1))
        return runs[process]

    for step in steps:
        if isinstance(step, Assignment):
            if not step.listed:
                runs.pop(step.process, None)
            elif step.process not in runs or step.seeks:
                # An assignment that may or may not have happened: its seek proves nothing.
                seek = step.begun if step.ok and step.seeks else -1
                runs[step.process] = begin(ReadingRun(step.process, seek >= 0, seek))
            continue
        at, ok = step.at, step.type == "ok"
        for e in step.sent:
            other = writers.setdefault(e.value, at)
            if other != at:
                raise MalformedError(
                    f"W10: value {e.value} of key {key} is sent by {other} and {at}"
                )
            log.sent.append(Sent(e.value, e.offset, at, step.type, step.begun))
        if step.polled or step.end is not None:
            run = run_of(step.process)
            log.read += [Read(e.value, e.offset, at, ok, run) for e in step.polled]
            if step.end is not None:
                log.ends.append(End(step.end, at, step.begun, run))
    return log


def proven_by(log: KeyLog) -> frozenset[int]:
    """The `info` operations of which an ok poll of this key returned a message: they happened."""
    unsure = [s for s in log.sent if s.type == "info"]
    if not unsure:
        return frozenset()
    seen = {r.value for r in log.read if r.ok}
    return frozenset(s.op for s in unsure if s.value in seen)
