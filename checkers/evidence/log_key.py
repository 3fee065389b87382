"""The log of one key: its order, and every anomaly that one key's messages alone can show.

A pure function of one `KeyLog`, so keys can be judged anywhere and in any order. Words:

- **committed**: an ok send, or an `info` one of which an ok poll returned a message.
- **log**: offset -> the values seen there, by committed sends that know their offset and by *every*
  poll, also failed ones: a consumer must only ever be shown safe data.
- **dense order**: offsets that hold something, numbered 0, 1, 2, …. Gaps are legal.

Where an offset holds several values the smallest represents it (Jepsen leaves the choice open).

Two things are ours. A message is `lost-write` only if a run of reading *began* at or before it
and went on past it: a consumer that starts in the middle has passed nothing before. And `lost-tail`
also looks at the last complete re-read of the log (after the last fault, from an explicit seek to
an end that the broker confirmed), and where replicas are made master in turn at the last one of
each: what was acknowledged before it and is not in it is lost, even if a consumer had read it
earlier, or elsewhere.

Source: docs/spec/checkers.md 2.1 to 2.3.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from maxq.checkers.evidence.log import End, KeyLog, Read, Sent, Value
from maxq.checkers.evidence.stores.trims import first_young

LISTED_MAX = 32  # values listed inside one anomaly


class Finding(NamedTuple):
    """An anomaly without its story. `inexcusable`: no setting excuses it."""

    name: str
    key: int
    ops: tuple[int, ...]
    detail: dict[str, Any]
    inexcusable: bool = False


class Order(NamedTuple):
    """The dense order of one key."""

    offsets: Sequence[int]  # dense index -> offset
    values: Sequence[Value]  # dense index -> the value that represents it
    place: Mapping[Value, int]  # value -> the last dense index that it represents
    first: Mapping[Value, int]  # value -> smallest dense index over all values of each offset
    last: Mapping[Value, int]
    shown: Sequence[int]  # dense index -> the operation that first showed the value there

    def delta(self, a: Value, b: Value) -> int:
        """How far b is behind a; 1 when either place is unknown."""
        i, j = self.place.get(a), self.place.get(b)
        return 1 if i is None or j is None else j - i

    def between(self, a: Value, b: Value) -> list[Value]:
        """The values strictly between, shortened."""
        low = self.place[a] + 1
        return list(self.values[low : min(self.place[b], low + LISTED_MAX)])


class KeyJudgement(NamedTuple):
    """What the messages of one key say by themselves."""

    order: Order
    findings: list[Finding]
    unseen: int  # acknowledged, never read by an ok poll, and not proved lost


Places = dict[int, dict[Value, int]]  # offset -> value -> the operation that first showed it there


def judge_key(log: KeyLog, proven: frozenset[int]) -> KeyJudgement:
    """Find every anomaly of one key.

    Args:
        log: everything about the key.
        proven: `info` operations that are known to have happened.
    """
    places = _places(log, proven)
    order = _order(places)
    twice = [*_inconsistent_offsets(log.key, places, order), *_duplicates(log.key, places)]
    judged = judge_placed(log, proven, order, Reach(_passed(log, order), _starts(log)))
    return judged._replace(findings=[*twice, *judged.findings])


def judge_placed(log: KeyLog, proven: frozenset[int], order: Order, reach: "Reach") -> KeyJudgement:
    """Find what is wrong with messages of which the places are known.

    Args:
        log: what is said of the messages that are asked about, and the confirmed ends that matter
            to them.
        proven: `info` operations that are known to have happened.
        order: where all messages of the key are.
        reach: from where to where its readers went.
    """
    findings = [*_bad_reads(log), *_truncations(log)]
    lost = list(_lost(log, proven, order, reach))
    findings += lost
    gone = {f.detail["value"] for f in lost if f.name != "hidden-loss"}
    unseen = list(_unseen_sends(log))
    if unseen:
        findings.append(_unseen(log.key, unseen))
    return KeyJudgement(order, findings, sum(s.value not in gone for s in unseen))


def _places(log: KeyLog, proven: frozenset[int]) -> Places:
    places: Places = {}
    for s in log.sent:
        if s.offset is not None and committed(s, proven):
            places.setdefault(s.offset, {}).setdefault(s.value, s.op)
    for r in log.read:
        if r.offset is not None:
            places.setdefault(r.offset, {}).setdefault(r.value, r.op)
    return places


def committed(sent: Sent, proven: frozenset[int]) -> bool:
    """Whether a send is known to have happened."""
    return sent.type == "ok" or sent.op in proven


def _order(places: Places) -> Order:
    place: dict[Value, int] = {}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    represent: list[Value] = []
    shown: list[int] = []
    offsets = sorted(places)
    for at, offset in enumerate(offsets):
        values = places[offset]
        chosen = min(values, key=_rank) if len(values) > 1 else next(iter(values))
        represent.append(chosen)
        shown.append(values[chosen])
        place[chosen] = at
        for value in values:
            first.setdefault(value, at)
            last[value] = at
    return Order(offsets, represent, place, first, last, shown)


def _rank(value: Value) -> tuple[bool, Value]:
    return (type(value) is str, value)


def _inconsistent_offsets(key: int, places: Places, order: Order) -> Iterator[Finding]:
    for at, offset in enumerate(order.offsets):
        shown = places[offset]
        if len(shown) > 1:
            values = sorted(shown, key=_rank)
            detail = {"key": key, "offset": offset, "index": at, "values": values[:LISTED_MAX]}
            ops = _ops(shown[v] for v in values)
            yield Finding("inconsistent-offsets", key, ops, detail)


def _duplicates(key: int, places: Places) -> Iterator[Finding]:
    held: dict[Value, int] = {}  # value -> its first offset
    again: dict[Value, list[int]] = {}
    for offset in sorted(places):
        for value in places[offset]:
            if value in held:
                again.setdefault(value, [held[value]]).append(offset)
            else:
                held[value] = offset
    for value, offsets in again.items():
        detail = {"key": key, "value": value, "count": len(offsets), "offsets": offsets}
        yield Finding("duplicate", key, _ops(places[o][value] for o in offsets), detail)


def _bad_reads(log: KeyLog) -> Iterator[Finding]:
    """Phantoms, aborted reads, reads of what was sent later, and reads by an operation of its own
    message; each once."""
    writers = {s.value: s for s in log.sent}
    reported: set[tuple[str, Value]] = set()
    for r in log.read:
        writer = writers.get(r.value)
        name = _bad_read(r, writer)
        if name is None or (name, r.value) in reported:
            continue
        reported.add((name, r.value))
        detail: dict[str, Any] = {"key": log.key, "value": r.value, "offset": r.offset}
        detail |= {"reader": r.op, "writer": None if writer is None else writer.op}
        ops = (r.op,) if writer is None else (writer.op, r.op)
        yield Finding(name, log.key, _ops(ops), detail)


def _bad_read(read: Read, writer: Sent | None) -> str | None:
    if writer is None:
        return "phantom"
    if writer.op == read.op:
        return "precommitted-read"
    if not read.ok:
        return None
    if writer.type == "fail":
        return "G1a"
    return "G1c-realtime" if read.op < writer.begun else None


def _truncations(log: KeyLog) -> Iterator[Finding]:
    """What an ok poll had shown at an offset and a later one shows no more."""
    shown: dict[int, Read] = {}  # offset -> the first ok read there
    for r in log.read:
        if not r.ok or r.offset is None:
            continue
        before = shown.setdefault(r.offset, r)
        if before.value != r.value and before.op != r.op:
            yield _truncation(log.key, before, r.op, {"instead": r.value})
            shown[r.offset] = r
    if not log.ends:
        return
    # A lagging replica may confirm an early end too; what was shown again after it is not gone.
    ends = sorted(log.ends)
    latest = list(accumulate(ends, _later_begun))
    reread = next(reversed(rereads(log)), None)
    seen = _last_seen(log)
    for offset, r in sorted(shown.items()):
        below = bisect_right(ends, offset, key=lambda e: e.end) - 1
        if below >= 0 and seen[r.value] < latest[below].begun:
            yield _truncation(log.key, r, latest[below].op, {"end": latest[below].end})
        elif reread is not None and seen[r.value] < reread.seek:
            yield _truncation(log.key, r, reread.end.op, {"end": reread.end.end})


class Reread(NamedTuple):
    """A complete re-read: where it ended, when it began, what any consumer was shown from then on
    until the next replica was made master."""

    end: End
    seek: int
    values: set[Value]


def rereads(log: KeyLog) -> list[Reread]:
    """The complete re-read (explicit seek to confirmed end) that began last, of each replica that
    was made master; in order."""
    ends = [e for e in log.ends if log.runs[e.run].seek >= 0]
    last: dict[int, Reread] = {}  # how many replicas had been made master -> the last re-read
    for end in sorted(ends, key=lambda e: (log.runs[e.run].seek, e.op)):
        seek = log.runs[end.run].seek
        last[bisect_right(log.elected, seek)] = Reread(end, seek, set())
    for r in log.read:
        known = last.get(bisect_right(log.elected, r.op))
        if known is not None and r.ok and r.op >= known.seek:
            known.values.add(r.value)
    return list(last.values())


def _later_begun(a: End, b: End) -> End:
    return a if a.begun > b.begun else b


def _truncation(key: int, read: Read, later: int, what: dict[str, Any]) -> Finding:
    detail = {"key": key, "value": read.value, "offset": read.offset, "reader": read.op}
    return Finding("truncation", key, _ops((read.op, later)), {**detail, "later": later, **what})


def _last_seen(log: KeyLog) -> dict[Value, int]:
    # Reads come in order of operations, so the last one wins.
    return {r.value: r.op for r in log.read if r.ok}


class Passed(NamedTuple):
    """From where to where a run of reading went, by dense index."""

    start: int
    bound: int
    op: int  # the operation that read at `bound`


class Reach(NamedTuple):
    """What the runs of reading of a key passed, the widest first; and the offset at which each
    began, -1 for the start of the log."""

    passed: list[Passed]
    starts: Mapping[int, int]


def _passed(log: KeyLog, order: Order) -> list[Passed]:
    runs: dict[int, Passed] = {}
    for r in log.read:
        at = order.first.get(r.value)
        if not r.ok or at is None:
            continue
        old = runs.get(r.run)
        if old is None:
            runs[r.run] = Passed(-1 if log.runs[r.run].from_start else at, at, r.op)
        elif at > old.bound or at < old.start:
            bound, op = (at, r.op) if at > old.bound else (old.bound, old.op)
            runs[r.run] = Passed(min(old.start, at), bound, op)
    return widest_first(runs.values())


def widest_first(passed: Iterable[Passed]) -> list[Passed]:
    """In this order the same run proves every loss that it can."""
    return sorted(passed, key=lambda p: (p.start - p.bound, p.op))


def _lost(log: KeyLog, proven: frozenset[int], order: Order, reach: Reach) -> Iterator[Finding]:
    seen = _last_seen(log)
    passed, starts = reach
    bound = max((p.bound for p in passed), default=-1)
    complete = rereads(log)
    for s in log.sent:
        if not committed(s, proven):
            continue
        last = order.last.get(s.value)
        by = None
        if s.value not in seen and last is not None:
            by = next((p for p in passed if p.start <= last <= p.bound), None)
        if by is not None:
            yield _loss("lost-write", log.key, s, by.op, order, by.bound)
        elif (end := _ended_without(log, s, seen, complete, starts)) is not None:
            yield _loss("lost-tail", log.key, s, end.op, order, end.end)
        elif s.value not in seen and last is not None and order.first[s.value] <= bound < last:
            op = next(p.op for p in passed if p.bound == bound)
            yield _loss("hidden-loss", log.key, s, op, order, bound)


def _ended_without(
    log: KeyLog,
    sent: Sent,
    seen: dict[Value, int],
    complete: list[Reread],
    starts: Mapping[int, int],
) -> End | None:
    """The confirmed end of the log that proves a message is not in it."""
    if sent.type != "ok" or not log.ends:
        return None
    after = [r for r in complete if sent.op < r.seek]
    if after:
        return next((r.end for r in after if sent.value not in r.values), None)
    if seen.get(sent.value, -1) >= 0:
        return None
    for e in log.ends:
        if e.begun > sent.op and _covers(starts.get(e.run), sent.offset):
            return e
    return None


def _covers(start: int | None, offset: int | None) -> bool:
    """Whether a run of reading from `start` on meets this offset."""
    return start is not None and (start < 0 or (offset is not None and start <= offset))


def _starts(log: KeyLog) -> dict[int, int]:
    """The offset at which each run of reading began; -1 for the start of the log."""
    starts = {run: -1 for run, known in enumerate(log.runs) if known.from_start}
    for r in log.read:
        if r.ok and r.offset is not None:
            starts.setdefault(r.run, r.offset)
    return starts


def _loss(name: str, key: int, sent: Sent, by: int, order: Order, bound: int) -> Finding:
    detail = {
        "key": key,
        "value": sent.value,
        "offset": sent.offset,
        "index": order.first.get(sent.value),
        "writer": sent.op,
    }
    where = "end" if name == "lost-tail" else "max-read-index"
    reader = "reader" if name == "lost-tail" else "max-read"
    return Finding(name, key, _ops((sent.op, by)), {**detail, where: bound, reader: by})


def _unseen_sends(log: KeyLog) -> Iterator[Sent]:
    """What was acknowledged and never read, but for what may be deleted for its age."""
    seen, young = {r.value for r in log.read if r.ok}, first_young(log.expired)
    return (
        s for s in log.sent
        if s.type == "ok" and s.value not in seen and (s.offset is None or s.offset >= young)
    )  # fmt: skip


def _unseen(key: int, sends: list[Sent]) -> Finding:
    values = [s.value for s in sends]
    detail = {"key": key, "unseen": len(values), "messages": values[:LISTED_MAX]}
    return Finding("unseen", key, _ops(s.op for s in sends[:LISTED_MAX]), detail)


def _ops(indices: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(indices)))
