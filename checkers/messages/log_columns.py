"""Durability by arrays: whether the messages of a key show nothing that is wrong.

The conditions are those of `log_key`, `log_order` and `log`, each turned round: no offset holds two
values, no value has two offsets, each reader went forward one by one, whatever was acknowledged
was read later or nobody had passed it. Where one does not hold, or is not cheap to decide, the key
is left to its rows.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.core.columnar import UNSURE, Arrays, Dealing, Unsure, keys_of
from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.log import Assignment, LogFacts, ends_said, log_ops
from maxq.checkers.messages.circles import Links, links
from maxq.histories.columns.messages import NO_OFFSET, messages_of
from maxq.histories.columns.rows import FAIL, INFO, INVOKE, OK, Rows
from maxq.histories.columns.scan import Ints, Mask, distinct, order_of
from maxq.histories.text import decode_value

SENT, POLLED, ENDED = range(3)


def elements(rows: Rows, chosen: Ints, known: LogFacts) -> Dealing:
    """What sends, polls and transactions of a batch say of each key, an element a row."""
    chosen = chosen[(rows.type[chosen] != INVOKE) | rows.open[chosen]]
    messages = messages_of(rows, chosen)
    row, key, value, offset = messages.row, messages.key, messages.value, messages.offset
    kind = np.where(messages.polled, POLLED, SENT)
    ends = _ends_of(rows, chosen, known)
    if len(ends.row):
        row = np.concatenate([row, ends.row])
        key = np.concatenate([key, ends.key])
        value = np.concatenate([value, ends.end])
        offset = np.concatenate([offset, np.full(len(ends.row), NO_OFFSET)])
        kind = np.concatenate([kind, np.full(len(ends.row), ENDED)])
        order = np.argsort(row, kind="stable")
        row, key, value, offset, kind = (c[order] for c in (row, key, value, offset, kind))
    begun = np.where(rows.begun >= 0, rows.begun, rows.index)
    outcome = np.where(rows.type == INVOKE, INFO, rows.type)
    unsure = set[int]()
    foreign = np.union1d(messages.foreign, ends.foreign)
    for _, op, first in rows.events(foreign):
        event = Event(op, first, op.type == "invoke")
        unsure |= keys_of(log_ops(event, known.healed))
    arrays = {
        "at": rows.index[row],
        "begun": begun[row],
        "process": rows.process[row],
        "value": value,
        "offset": offset,
        "kind": kind.astype(np.int8),
        "type": outcome[row].astype(np.int8),
        "open": rows.open[row],
        "shared": _shared(row, key),
        "mixed": _mixed(row, kind),
    }
    return Dealing(key, row, arrays, foreign, frozenset(unsure))


class _Ends(NamedTuple):
    row: Ints
    key: Ints
    end: Ints
    foreign: Ints


def _ends_of(rows: Rows, chosen: Ints, known: LogFacts) -> _Ends:
    """The confirmed ends; rows of a rebalance are left to the decoder."""
    may = chosen[rows.ext_has(chosen, "end") & (rows.type[chosen] == OK)]
    begun = np.where(rows.begun[may] >= 0, rows.begun[may], rows.index[may])
    may = may[begun > known.healed]
    found: list[tuple[int, int, int]] = []
    for row, text in zip(may.tolist(), rows.exts(may).to_pylist(), strict=True):
        said = decode_value(text or "null")
        if "end" in said:
            at = int(rows.index[row])
            found += [(row, key, end) for key, end in ends_said(at, said["end"])]
    table = np.array(found or np.zeros((0, 3)), np.int64)
    return _Ends(
        table[:, 0], table[:, 1], table[:, 2], chosen[rows.ext_has(chosen, "rebalance-log")]
    )


def _shared(row: Ints, key: Ints) -> Mask:
    """Whether an operation is on several keys."""
    if not len(row):
        return np.zeros(0, np.bool_)
    heads = np.flatnonzero(np.diff(row, prepend=row[:1] - 1))
    several = np.minimum.reduceat(key, heads) != np.maximum.reduceat(key, heads)
    return np.repeat(several, np.diff(heads, append=len(row)))


def _mixed(row: Ints, kind: Ints) -> Mask:
    """Whether an operation both sent and polled."""
    count = int(row.max()) + 1 if len(row) else 0
    sent, polled = (np.bincount(row[kind == k], minlength=count) > 0 for k in (SENT, POLLED))
    return np.asarray((sent & polled)[row])


class Clean(NamedTuple):
    """What is counted of a key of which nothing is wrong, as `KeyVerdict` has it."""

    names: Counter[tuple[str, bool]]
    unseen: int
    sent: int
    acknowledged: int
    read: int
    ok_read: bool
    ends: int
    proven: frozenset[int]
    unproven: frozenset[int]
    links: Links


def clean(
    key: int, a: Arrays, known: LogFacts, more: frozenset[int], *, orders: bool
) -> Clean | Unsure:
    """The counts of a key of which nothing is wrong; or `UNSURE`.

    Args:
        key: its number.
        a: its elements, in order.
        known: of the whole history.
        more: `info` operations that other keys show to have happened.
        orders: whether each process's order is judged.
    """
    if known.expired.get(key):
        return UNSURE
    if a["open"].any():  # what never completed comes last
        order = np.argsort(a["open"], kind="stable")
        a = {name: column[order] for name, column in a.items()}
    log = _Log(a, more)
    if not (log.sound() and _read_well(log) and _nothing_gone(key, log, known)):
        return UNSURE
    skips = _in_order(key, log, known) if orders else 0
    if skips < 0:
        return UNSURE
    unsure = log.sent_at[log.sent_type == INFO]
    proven = frozenset(unsure[log.seen_of_sent[log.sent_type == INFO]].tolist())
    shared = frozenset(log.sent_at[(log.sent_type == INFO) & log.sent_shared].tolist())
    lacking = int(((log.sent_type == OK) & ~log.seen_of_sent).sum())
    names = Counter({("unseen", False): 1} if lacking else {})
    if skips:
        names["int-send-skip", False] = skips
    return Clean(
        names=names,
        unseen=lacking,
        sent=len(log.sent_at),
        acknowledged=int((log.sent_type == OK).sum()),
        read=len(log.read_at),
        ok_read=bool((log.read_type == OK).any()),
        ends=len(log.end_at),
        proven=proven,
        unproven=shared - (proven | more),
        links=_links(log),
    )


def _links(log: "_Log") -> Links:
    """As `links_of` has them."""
    chain = np.flatnonzero(log.sent_shared & log.committed & (log.sent_place >= 0))
    chain = chain[np.argsort(log.sent_place[chain], kind="stable")]
    writer = log.sent_order[log.writer]
    both = log.read_mixed & log.sent_mixed[writer]
    both &= (log.read_type == OK) & (log.sent_type[writer] == OK)
    one, two = log.sent_at[writer[both]].tolist(), log.read_at[both].tolist()
    return links(log.sent_at[chain].tolist(), zip(one, two, strict=True))


_NONE = slice(0, 0)


class _Log:
    """The columns of one key, each kind of element by itself, and its order.

    `place` is the dense index of an element's value, -1 where it has none; `seen_of_sent` whether
    an ok poll returned a message.
    """

    def __init__(self, a: Arrays, more: frozenset[int]) -> None:
        sent, read, ended = (a["kind"] == kind for kind in (SENT, POLLED, ENDED))
        self.sent_at, self.sent_value, self.sent_offset = _of(a, sent, "at", "value", "offset")
        self.sent_type, self.sent_process = _of(a, sent, "type", "process")
        self.sent_shared, self.sent_mixed, self.sent_begun = _of(
            a, sent, "shared", "mixed", "begun"
        )
        self.read_at, self.read_value, self.read_offset = _of(a, read, "at", "value", "offset")
        self.read_type, self.read_process = _of(a, read, "type", "process")
        (self.read_mixed,) = _of(a, read, "mixed")
        self.end_at, self.end, self.end_begun = _of(a, ended, "at", "value", "begun")
        (self.end_process,) = _of(a, ended, "process")

        # Every value that was sent, and the last ok poll that returned it.
        order = np.argsort(self.sent_value, kind="stable")
        self.sent_order = order
        self._values = self.sent_value[order]
        self.writer = self._number(self.read_value)  # of each read, in order of `_values`
        self.last_seen = np.full(len(self._values), -1, np.int64)
        ok = (self.read_type == OK) & (self.writer >= 0)
        np.maximum.at(self.last_seen, self.writer[ok], self.read_at[ok])
        self.seen_of_sent = np.zeros(len(order), np.bool_)
        self.seen_of_sent[order] = self.last_seen >= 0
        shown = self.sent_at[(self.sent_type == INFO) & self.seen_of_sent]
        happened = np.isin(self.sent_at, shown) | np.isin(self.sent_at, list(more))
        self.committed = (self.sent_type == OK) | ((self.sent_type == INFO) & happened)

    def _number(self, values: Ints) -> Ints:
        """Where each value stands among those that were sent; -1: it was not."""
        if not len(self._values):
            return np.full(len(values), -1, np.int64)
        at = np.minimum(np.searchsorted(self._values, values), len(self._values) - 1)
        return np.where(self._values[at] == values, at, -1)

    def sound(self) -> bool:
        """Whether every offset has one value and every value one offset; and no value two
        senders, and every poll an offset."""
        if (self._values[1:] == self._values[:-1]).any() or (self.read_offset < 0).any():
            return False
        if (self.writer < 0).any():
            return False
        # An offset of each value, by the reads; then by the sends that know it.
        self.offset = np.full(len(self._values), NO_OFFSET, np.int64)
        self.offset[self.writer] = self.read_offset
        if (self.offset[self.writer] != self.read_offset).any():
            return False
        place = np.empty(len(self.sent_order), np.int64)
        place[self.sent_order] = np.arange(len(place))
        knows = self.committed & (self.sent_offset >= 0)
        mine = place[knows]
        differs = (self.offset[mine] >= 0) & (self.offset[mine] != self.sent_offset[knows])
        if differs.any():
            return False
        self.offset[mine] = self.sent_offset[knows]
        held = self.offset[self.offset >= 0]
        self.offsets = np.sort(held)
        if (self.offsets[1:] == self.offsets[:-1]).any():
            return False
        self.dense = np.where(self.offset >= 0, np.searchsorted(self.offsets, self.offset), -1)
        self.sent_place = self.dense[place]
        self.read_place = self.dense[self.writer]
        self.number_of_sent = place
        return True


def _of(a: Arrays, chosen: Mask, *names: str) -> list[Any]:
    return [a[name][chosen] for name in names]


def _read_well(log: _Log) -> bool:
    """Whether nobody read what was not sent by another, had failed, or was sent later."""
    writer = log.sent_order[log.writer]
    if (log.sent_at[writer] == log.read_at).any():
        return False
    if ((log.read_type == OK) & (log.read_at < log.sent_begun[writer])).any():
        return False
    return not ((log.sent_type[writer] == FAIL) & (log.read_type == OK)).any()


def _nothing_gone(key: int, log: _Log, known: LogFacts) -> bool:
    """Whether nothing that was acknowledged, or read, was gone later."""
    runs = _runs(key, log, known)
    ok = log.read_type == OK
    return _not_passed(log, runs, ok) and _still_there(log, runs, ok, known)


class _Runs(NamedTuple):
    """Runs of reading: of each read, of each end; and of each run whether it began at the start of
    the log, and the invocation of its seek, -1 where there was none."""

    of_read: Ints
    of_end: Ints
    from_start: Mask
    seek: Ints


def _runs(key: int, log: _Log, known: LogFacts) -> _Runs:
    """As `read_key` cuts them."""
    reads, ends = _ByProcess(log.read_process, log.read_at), _ByProcess(log.end_process, log.end_at)
    # One run of each process, but for those whose assignments cut theirs.
    whole = distinct(np.concatenate([log.read_process, log.end_process]))
    of_read = np.searchsorted(whole, log.read_process)
    of_end = np.searchsorted(whole, log.end_process)
    from_start, seeks = [known.plain] * len(whole), [-1] * len(whole)
    changes: dict[int, list[Assignment]] = {}
    for assigned in known.assignments:
        changes.setdefault(assigned.process, []).append(assigned)
    for process in np.intersect1d(whole, np.array([*changes], np.int64)).tolist():
        steps = changes[process]
        done = reads.counts(process, steps) + ends.counts(process, steps)  # before each, up to each
        cuts, born = [-1], [(known.plain, -1)]
        passed = 0  # how many elements there were up to the last cut
        held = False  # whether the process is in a run, as far as assignments say
        for step, before, until in zip(steps, *done.tolist(), strict=True):
            if key not in step.keys:
                cuts.append(step.at)
                born.append((known.plain, -1))
                passed, held = until, False
            elif not held or step.seeks:
                # One that only lists the key goes on with the run of a read before it.
                seek = step.begun if step.ok and step.seeks else -1
                if step.seeks or before <= passed:
                    cuts.append(step.at)
                    born.append((seek >= 0, seek))
                    passed = until
                held = True
        first = len(from_start)
        from_start += [start for start, _ in born]
        seeks += [seek for _, seek in born]
        at = np.array(cuts, np.int64)
        mine = reads.of(process)
        of_read[mine] = first + np.searchsorted(at, log.read_at[mine], "right") - 1
        ended = ends.of(process)
        of_end[ended] = first + np.searchsorted(at, log.end_at[ended], "right") - 1
    return _Runs(of_read, of_end, np.array(from_start, np.bool_), np.array(seeks, np.int64))


class _ByProcess:
    """Elements sorted by process, each process's in order."""

    def __init__(self, process: Ints, at: Ints) -> None:
        self._order = order_of(process)
        mine = process[self._order]
        self._at = at[self._order]
        first = np.flatnonzero(np.diff(mine, prepend=mine[:1] - 1)).tolist()
        ends = [*first[1:], len(mine)]
        self._of = dict(zip(mine[first].tolist(), map(slice, first, ends), strict=True))

    def of(self, process: int) -> Ints:
        """The elements of a process."""
        mine: Ints = self._order[self._of.get(process, _NONE)]
        return mine

    def counts(self, process: int, steps: Sequence[Assignment]) -> Ints:
        """How many elements a process has before each of some steps, and up to each; shape
        (2, steps)."""
        at = np.array([step.at for step in steps], np.int64)
        mine = self._at[self._of.get(process, _NONE)]
        return np.array([np.searchsorted(mine, at), np.searchsorted(mine, at, "right")], np.int64)


def _not_passed(log: _Log, runs: _Runs, ok: Mask) -> bool:
    """Whether no run of reading went past a message that no poll returned."""
    lacking = log.committed & ~log.seen_of_sent & (log.sent_place >= 0)
    if not lacking.any():
        return True
    low = np.full(len(runs.from_start), np.iinfo(np.int64).max)
    high = np.full(len(runs.from_start), -1, np.int64)
    np.minimum.at(low, runs.of_read[ok], log.read_place[ok])
    np.maximum.at(high, runs.of_read[ok], log.read_place[ok])
    low[runs.from_start & (high >= 0)] = -1
    places = log.sent_place[lacking]
    went = high >= 0
    # Sorted by where they begin: the furthest of those that began before a place.
    order = np.argsort(low[went], kind="stable")
    begins, furthest = low[went][order], np.maximum.accumulate(high[went][order])
    at = np.searchsorted(begins, places, "right") - 1
    return not ((at >= 0) & (furthest[np.maximum(at, 0)] >= places)).any() if len(begins) else True


def _still_there(log: _Log, runs: _Runs, ok: Mask, known: LogFacts) -> bool:
    """Whether no confirmed end of the log shows that a message is not in it."""
    if not len(log.end_at):
        return True
    seek = runs.seek[runs.of_end]
    # What was shown, and then again after the log may have been shorter.
    order = np.lexsort((runs.of_end, log.end_begun, log.end_at, log.end))
    ends = log.end[order]
    latest = np.maximum.accumulate(log.end_begun[order])
    shown = log.last_seen >= 0
    below = np.searchsorted(ends, log.offset[shown], "right") - 1
    if ((below >= 0) & (log.last_seen[shown] < latest[np.maximum(below, 0)])).any():
        return False
    # What was acknowledged before a re-read from the start, and is not in it.
    elected = np.array(known.elected, np.int64)
    sought = distinct(seek[seek >= 0])
    reigns = np.searchsorted(elected, sought, "right")
    last = {int(reign): int(s) for reign, s in zip(reigns, sought, strict=True)}
    acknowledged = log.sent_type == OK
    latest_seek = max(last.values(), default=-1)
    if latest_seek >= 0 and (log.last_seen[shown] < latest_seek).any():
        return False
    covered = np.zeros(len(log.sent_at), np.bool_)
    for reign, since in last.items():
        inside = ok & (log.read_at >= since)
        inside &= np.searchsorted(elected, log.read_at, "right") == reign
        read = np.zeros(len(log.last_seen), np.bool_)
        read[log.writer[inside]] = True
        before = acknowledged & (log.sent_at < since)
        if (before & ~read[log.number_of_sent]).any():
            return False
        covered |= before
    left = acknowledged & ~covered & ~log.seen_of_sent
    return not (left & (log.sent_at < log.end_begun.max())).any()


def _in_order(key: int, log: _Log, known: LogFacts) -> int:
    """How many gaps there are within one operation's sends, which are allowed; -1: a process read,
    or sent, out of order."""
    if (log.read_type != OK).any():
        return -1
    reset = [a for a in known.assignments if key not in a.keys or a.seeks]
    forgot = [a for a in known.assignments if key not in a.keys]
    steps = _steps(log.read_process, log.read_at, log.read_place, reset)
    if (steps.by != 1).any():
        return -1
    counts = log.sent_type != FAIL
    steps = _steps(log.sent_process[counts], log.sent_at[counts], log.sent_place[counts], forgot)
    known_places = steps.both
    if (known_places & (steps.by < 1)).any():
        return -1
    placed = counts & (log.sent_place >= 0)  # also where one stands between whose place is unknown
    over = _steps(log.sent_process[placed], log.sent_at[placed], log.sent_place[placed], forgot)
    if (over.by < 1).any():
        return -1
    return int((known_places & steps.within & (steps.by > 1)).sum())


class _Steps(NamedTuple):
    """Of each two messages that follow one another in a process: how far the second is behind the
    first, whether both have a place, and whether they are of one operation."""

    by: Ints
    both: Mask
    within: Mask


def _steps(process: Ints, at: Ints, place: Ints, resets: list[Assignment]) -> _Steps:
    order = order_of(process)
    process, at, place = process[order], at[order], place[order]
    follows = process[1:] == process[:-1]
    if resets and len(process):
        # By process and index in one number: the rank of the process, then the index.
        rank, far = np.cumsum(np.insert(~follows, 0, False)), int(at.max()) + 1
        who = np.array([reset.process for reset in resets], np.int64)
        when = np.array([reset.at for reset in resets], np.int64)
        lows = np.searchsorted(process, who)
        there = lows < len(process)
        there[there] = process[lows[there]] == who[there]
        ranks = rank[lows[there]]
        cuts = np.searchsorted(rank * far + at, ranks * far + np.minimum(when[there], far))
        follows[cuts[(cuts > 0) & (cuts < len(process))] - 1] = False
    by = (place[1:] - place[:-1])[follows]
    both = ((place[1:] >= 0) & (place[:-1] >= 0))[follows]
    return _Steps(by, both, (at[1:] == at[:-1])[follows])
