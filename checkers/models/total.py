"""What was put in and what came out: a queue drained to its end, and a set read again and again."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, OK, OPEN, Call, Calls, Ints, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.exact.elements import Elements
from maxq.checkers.linearizability.ties import Ties, alone
from maxq.checkers.models.queues import EMPTY_ERRORS, QUEUED
from maxq.checkers.models.rule import Rule, illegal, legal, unsure
from maxq.checkers.models.sets import ADDS
from maxq.checkers.models.shapes import answered, frozen, keyed, members, something
from maxq.histories.op import Op

PUT, TAKE, DRAIN, EMPTY = "enqueue", "dequeue", "drain", "empty"


class TotalQueue(Rule):
    """Every value that was acknowledged comes out, once the queue was drained, in any order.

    Operations: `enqueue` v; `dequeue` (its completion has the value); `drain` (a list of all that
    was left). A value that comes out twice is counted, and allowed. Nothing is lost before the
    queue was found empty: by a drain, or by a dequeue that says so.
    """

    name = "total-queue"
    about = "what was acknowledged comes out of the drained queue, in any order; twice is allowed"
    blind = (PUT,)
    synonyms = QUEUED
    by_key = True
    asks = (PUT,)

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        if begun.f == PUT:
            yield Row(key, PUT, something(begun, value))
        elif begun.f == TAKE:
            done = ended is not None and ended.type == "ok"
            value = frozen(ended.value) if done and ended else None
            failed = ended is not None and ended.type == "fail" and _says_empty(ended.error)
            empty = failed or (done and value is None)
            yield Row(key, EMPTY if empty else TAKE, result=None if empty else value)
        elif begun.f == DRAIN:
            shown = None if ended is None or ended.type == "fail" else ended.value
            yield Row(key, DRAIN, result=None if shown is None else members(begun, shown))

    def fast(self, calls: Calls) -> Decided:
        every = [calls.call(at) for at in range(calls.size)]
        asked: dict[Any, list[Call]] = defaultdict(list)
        for call in every:
            if call.kind == PUT:
                asked[call.argument].append(call)
        out: dict[Any, list[Call]] = defaultdict(list)
        for call in every:
            for value in _taken(call):
                out[value].append(call)
        for value, takers in out.items():
            if (found := _impossible(takers, asked[value])) is not None:
                return found
        twice = sum(max(0, len(t) - len(asked[v])) for v, t in out.items())
        return _lost(every, asked, out) or legal(
            "duplicated" if twice else "", f"{twice:,} came out more often" if twice else ""
        )

    def ties(self, calls: Calls) -> Ties:
        needs = super().ties(calls).needs
        maybe = [at for at in range(calls.size)
                 if calls.outcome[at] == OPEN and not calls.of(PUT)[at]]  # fmt: skip
        puts = calls.of(PUT)
        takes: dict[Any, list[int]] = defaultdict(list)
        for at in range(calls.size):
            for value in _taken(calls.call(at)):
                takes[value].append(at)

        def both(at: int) -> Iterable[int]:
            """What was put in keeps all who may have taken it."""
            mine = [*maybe, *takes[calls.call(at).argument]] if puts[at] else ()
            return [*needs(at), *mine]

        return alone(calls.size, both)


def _says_empty(error: Any) -> bool:
    words = error if isinstance(error, list) else [error]
    return any(str(word) in EMPTY_ERRORS for word in words)


def _taken(call: Call) -> tuple[Any, ...]:
    if call.outcome == FAILED or call.result is None or call.kind not in (TAKE, DRAIN):
        return ()
    return call.result if call.kind == DRAIN else (call.result,)


def _impossible(takers: list[Call], puts: list[Call]) -> Decided | None:
    """Who took what only a failed call put in, or what nobody had put in by then."""
    done = [put for put in puts if put.outcome != FAILED]
    early = [t for t in takers if not any(put.begun < t.ended for put in done)]
    if not early:
        return None
    failed = [put for put in puts if put.outcome == FAILED and put.begun < early[0].ended]
    if failed:
        why = f"{early[0].said()} took what only {failed[0].said()} put in"
        return illegal("aborted", why, failed[0], early[0])
    return illegal("unexpected", f"{early[0].said()} took what nobody put in", early[0])


def _lost(
    every: list[Call], asked: dict[Any, list[Call]], out: dict[Any, list[Call]]
) -> Decided | None:
    """What was acknowledged and did not come out, though nothing was left after it."""
    ends = _Ends(every)
    missing = [
        put for value, puts in asked.items()
        for put in _kept(ends, [p for p in puts if p.outcome == OK], out.get(value, []))
    ]  # fmt: skip
    if not missing:
        return None
    missing.sort(key=lambda put: (ends.deadline(put), put.begun))
    maybe = [c for c in every if c.kind in (TAKE, DRAIN) and c.outcome == OPEN]
    drained = min((c.begun for c in maybe if c.kind == DRAIN and c.result is None), default=NEVER)
    takes = iter([c.begun for c in maybe if c.kind == TAKE])  # ascending, as the deadlines are
    for put in missing:
        due = ends.deadline(put)
        if due == NEVER or drained < due or next(takes, NEVER) < due:
            continue
        end = ends.after(put)
        why = f"nothing took what {put.said()} put in, and {end.said()} left nothing behind"
        return illegal("lost", why, put, end)
    first = missing[0]
    if not maybe:
        return unsure("not-drained", f"nobody drained the queue after {first.said()}", first)
    return unsure("maybe-consumed", f"{maybe[0].said()} may have taken what {first.said()} put in",
                  first, maybe[0])  # fmt: skip


class _Ends:
    """The calls that found nothing left, or left nothing: what was put in before was gone then."""

    def __init__(self, every: list[Call]) -> None:
        self._ends = [
            c for c in every if c.kind == EMPTY or (c.kind == DRAIN and c.outcome == OK)
        ]  # fmt: skip
        self._begins = [c.begun for c in self._ends]
        first = accumulate(reversed(self._ends), lambda a, b: min(a, b, key=lambda c: c.ended))
        self._first: list[Call] = [*first][::-1]  # from each on, the one that was over first

    def deadline(self, put: Call) -> int:
        """When it was gone at the latest; NEVER: nobody says that."""
        at = bisect_right(self._begins, put.ended)
        return self._first[at].ended if at < len(self._first) else NEVER

    def after(self, put: Call) -> Call:
        """Who shows that it was gone."""
        return self._first[bisect_right(self._begins, put.ended)]


def _kept(ends: _Ends, puts: list[Call], takers: list[Call]) -> list[Call]:
    """The puts of one value that no taker stands for: as many as there must be, of those that had
    to be gone first as few as there may be. Each is given to the first taker to end that can be its
    own: one that was not over before it, nor began after it was gone."""
    if len(puts) == 1:
        (put,) = puts
        own = any(t.ended > put.begun and t.begun < ends.deadline(put) for t in takers)
        return [] if own else puts
    left = []
    waiting = sorted(takers, key=lambda t: t.begun)
    free: list[Call] = []
    for put in sorted(puts, key=lambda p: (ends.deadline(p), p.begun)):
        while waiting and waiting[0].begun < ends.deadline(put):
            free.append(waiting.pop(0))
        first = min((t for t in free if t.ended > put.begun), key=lambda t: t.ended, default=None)
        if first is None:
            left.append(put)
        else:
            free.remove(first)
    return left


class SetFull(Rule):
    """What is in a set stays in it.

    Operations: `add` v; `read` (its completion has all elements). An element is known from the end
    of its add, or of the first read that shows it; it is lost if a read that began after that lacks
    it, and none that began later has it again.
    """

    name = "set-full"
    about = "what was added to a set, and known, is in every later read or comes back: not lost"
    reads = ("read",)
    blind = ("add",)
    synonyms = ADDS
    by_key = True
    asks = ("add",)

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        if begun.f == "add":
            yield Row(key, "add", something(begun, value))
        elif begun.f == "read":
            shown = members(begun, ended.value) if ended and answered(ended) else None
            yield Row(key, "read", result=shown)

    def fast(self, calls: Calls) -> Decided:
        adds: dict[Any, int] = {}  # the first of each element that may have happened
        outcome = calls.outcome.tolist()
        known = np.where(calls.outcome == OK, calls.ended, NEVER)  # when it was surely there
        for at in np.flatnonzero(calls.of("add")).tolist():
            first = adds.setdefault(calls.values[calls.argument[at]], at)
            if first != at and outcome[first] == FAILED != outcome[at]:
                adds[calls.values[calls.argument[at]]] = at
            elif first != at:
                known[first] = min(known[first], known[at])
        reads = np.flatnonzero(calls.of("read") & (calls.outcome == OK)).tolist()
        return _elements(calls, adds, known, reads)

    def ties(self, calls: Calls) -> Ties:
        needs, reads = super().ties(calls).needs, calls.of("read")
        shown = {at: frozenset(calls.call(at).result or ())
                 for at in np.flatnonzero(reads).tolist()}  # fmt: skip

        def both(at: int) -> Iterable[int]:
            """An add keeps the reads that show it: without the last of them it would be lost."""
            value = calls.call(at).argument
            return [*needs(at), *([] if reads[at] else [n for n, s in shown.items() if value in s])]

        return alone(calls.size, both)


def _elements(calls: Calls, adds: dict[Any, int], known: Ints, reads: list[int]) -> Decided:
    order = sorted(adds.values())
    number = {calls.values[calls.argument[at]]: n for n, at in enumerate(order)}
    at = np.array(order, np.int64)
    elements = Elements(calls.begun[at], known[at])
    failed = calls.outcome[at] == FAILED
    for one in reads:
        result = calls.values[calls.result[one]]
        shown = np.fromiter((number.get(v, -1) for v in result), np.int64, len(result))
        if np.any(shown < 0) or np.any(calls.begun[at[shown]] > calls.ended[one]):
            return illegal("unexpected", f"{calls.call(one).said()} shows what nobody added",
                           calls.call(one))  # fmt: skip
        if np.any(failed[shown]):
            add = calls.call(int(at[shown[failed[shown]][0]]))
            why = f"{calls.call(one).said()} shows what only {add.said()} added"
            return illegal("aborted", why, add, calls.call(one))
        if not elements.read(int(calls.begun[one]), int(calls.ended[one]), shown):
            return illegal("duplicated", f"{calls.call(one).said()} shows an element twice",
                           calls.call(one))  # fmt: skip
    return _fates(calls, at, reads, elements)


def _fates(calls: Calls, adds: Ints, reads: list[int], elements: Elements) -> Decided:
    if (lost := elements.lost()) is not None:
        add, last = calls.call(int(adds[lost.element])), calls.call(reads[lost.absent])
        why = f"{add.said()} was known, and neither {last.said()} nor a later read has it"
        present = [calls.call(reads[lost.shown])] if lost.shown >= 0 else []
        return illegal("lost", why, add, *present, last)
    if not np.any(elements.stable()):
        some = adds[calls.outcome[adds] != FAILED][:1].tolist()
        return unsure("never-read", "no last read has an element", *map(calls.call, some))
    if (stale := elements.stale()) is not None:
        add, last = calls.call(int(adds[stale.element])), calls.call(reads[stale.absent])
        return legal("stale", f"{last.said()} lacks what {add.said()} had added")
    return legal()
