"""What was put in and what came out: a queue drained to its end, and a set read again and again."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, OK, OPEN, Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.ties import Ties, alone
from maxq.checkers.models.queues import EMPTY_ERRORS
from maxq.checkers.models.rule import Rule, illegal, legal, unsure
from maxq.checkers.models.shapes import frozen, keyed
from maxq.histories.op import HistoryError, Op

PUT, TAKE, DRAIN, EMPTY = "enqueue", "dequeue", "drain", "empty"


class TotalQueue(Rule):
    """Every value that was acknowledged comes out, once the queue was drained, in any order.

    Operations: `enqueue` v; `dequeue` (its completion has the value); `drain` (a list of all that
    was left). A value that comes out twice is counted, and allowed. Nothing is lost before the
    queue was found empty: by a drain, or by a dequeue that says so.
    """

    name = "total-queue"
    about = "what was acknowledged comes out of the drained queue, in any order; twice is allowed"

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        if begun.f == PUT:
            yield Row(key, PUT, frozen(value))
        elif begun.f == TAKE:
            done = ended is not None and ended.type == "ok"
            value = frozen(ended.value) if done and ended else None
            failed = ended is not None and ended.type == "fail" and _says_empty(ended.error)
            empty = failed or (done and value is None)
            yield Row(key, EMPTY if empty else TAKE, result=None if empty else value)
        elif begun.f == DRAIN:
            shown = None if ended is None or ended.type == "fail" else ended.value
            if shown is not None and not isinstance(shown, list):
                raise HistoryError(f"op {begun.index}: drain wants a list, not {shown!r:.100}")
            yield Row(key, DRAIN, result=None if shown is None else tuple(map(frozen, shown)))

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
            if value not in asked:
                return illegal("unexpected", f"{takers[0].said()} took what nobody put in",
                               takers[0])  # fmt: skip
            if all(put.outcome == FAILED for put in asked[value]):
                why = f"{takers[0].said()} took what only {asked[value][0].said()} put in"
                return illegal("aborted", why, asked[value][0], takers[0])
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


def _lost(
    every: list[Call], asked: dict[Any, list[Call]], out: dict[Any, list[Call]]
) -> Decided | None:
    """What was acknowledged and did not come out, though nothing was left after it."""
    sure = {v: [p for p in puts if p.outcome == OK] for v, puts in asked.items()}
    missing = {v: p for v, p in sure.items() if len(p) > len(out.get(v, ()))}
    if not missing:
        return None
    count = sum(len(p) - len(out.get(v, ())) for v, p in missing.items())
    first = min((p[-1] for p in missing.values()), key=lambda p: p.begun)
    ends = [c for c in every
            if c.kind == EMPTY or (c.kind == DRAIN and c.outcome == OK)]  # fmt: skip
    maybe = [c for c in every if c.kind in (TAKE, DRAIN) and c.outcome == OPEN]
    if any(c.kind == DRAIN and c.result is None for c in maybe) or count <= len(maybe):
        return unsure("maybe-consumed", f"{maybe[0].said()} may have taken what "
                      f"{first.said()} put in", first, maybe[0])  # fmt: skip
    gone = [p[-1] for p in missing.values() if any(e.begun > p[-1].ended for e in ends)]
    if gone:
        one = min(gone, key=lambda p: p.begun)
        end = next(e for e in ends if e.begun > one.ended)
        return illegal("lost", f"nothing took what {one.said()} put in, and {end.said()} left "
                       "nothing behind", one, end)  # fmt: skip
    return unsure("not-drained", f"nobody drained the queue after {first.said()}", first)


class SetFull(Rule):
    """What is in a set stays in it.

    Operations: `add` v; `read` (its completion has all elements). An element is known from the end
    of its add, or of the first read that shows it; it is lost if a read that began after that lacks
    it, and none that began later has it again.
    """

    name = "set-full"
    about = "what was added to a set, and known, is in every later read or comes back: not lost"
    reads = ("read",)

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        if begun.f == "add":
            yield Row(key, "add", frozen(value))
        elif begun.f == "read":
            shown = ended.value if ended is not None and ended.type == "ok" else None
            if shown is not None and not isinstance(shown, list | tuple | frozenset):
                raise HistoryError(f"op {begun.index}: read wants a list, not {shown!r:.100}")
            yield Row(key, "read", result=None if shown is None else tuple(map(frozen, shown)))

    def fast(self, calls: Calls) -> Decided:
        every = [calls.call(at) for at in range(calls.size)]
        adds: dict[Any, Call] = {}
        for call in every:
            if call.kind == "add" and (call.argument not in adds or call.outcome != FAILED):
                adds[call.argument] = call
        reads = [c for c in every if c.kind == "read" and c.outcome == OK]
        for call in reads:
            if (found := _impossible(call, adds)) is not None:
                return found
        return _elements(adds, reads)

    def ties(self, calls: Calls) -> Ties:
        needs, reads = super().ties(calls).needs, calls.of("read")
        shown = {at: frozenset(calls.call(at).result or ())
                 for at in np.flatnonzero(reads).tolist()}  # fmt: skip

        def both(at: int) -> Iterable[int]:
            """An add keeps the reads that show it: without the last of them it would be lost."""
            value = calls.call(at).argument
            return [*needs(at), *([] if reads[at] else [n for n, s in shown.items() if value in s])]

        return alone(calls.size, both)


def _impossible(call: Call, adds: dict[Any, Call]) -> Decided | None:
    """A read with an element twice, or one that nobody added."""
    for value, count in Counter(call.result).items():
        if value not in adds:
            return illegal("unexpected", f"{call.said()} shows what nobody added", call)
        if adds[value].outcome == FAILED:
            why = f"{call.said()} shows what only {adds[value].said()} added"
            return illegal("aborted", why, adds[value], call)
        if count > 1:
            return illegal("duplicated", f"{call.said()} shows an element twice", call)
    return None


def _elements(adds: dict[Any, Call], reads: list[Call]) -> Decided:
    shows = [(call, frozenset(call.result)) for call in reads]
    stable, stale, never = 0, None, None
    for value, add in adds.items():
        if add.outcome == FAILED:
            continue
        after = [(c, value in s) for c, s in shows if c.ended > add.begun]
        present = [c for c, has in after if has]
        absent = [c for c, has in after if not has]
        known = min([add.ended, *(c.ended for c in present)])
        last = present[-1].begun if present else -1
        gone = [c for c in absent if c.begun > known and c.begun > last]
        if gone:
            why = f"{add.said()} was known, and neither {gone[-1].said()} nor a later read has it"
            return illegal("lost", why, add, *present[-1:], gone[-1])
        if not present or (absent and absent[-1].begun > last):
            never = never or add
            continue
        stable += 1
        if absent and absent[-1].begun > known and known < NEVER:
            stale = stale or (add, absent[-1])
    if stable:
        if stale:
            return legal("stale", f"{stale[1].said()} lacks what {stale[0].said()} had added")
        return legal()
    shown = [never] if never else []
    return unsure("never-read", "no element was read for good", *shown)
