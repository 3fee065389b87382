"""Judges a history that is not held: no operation of a large kind is ever kept.

Its pieces are read three times: once for what is small, once to deal their rows out by key, as
arrays where a check has them (`maxq.checkers.core.columnar`), once for the operations that checks
ask for. Keys of which arrays cannot say that nothing is wrong are judged by their rows then. Where
something was found, what shows it is looked up (`maxq.checkers.judgement.piecewise.looked_up`).

`judging_of` says what is to be read, `judge_batches` reads it in this process.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from maxq.checkers.core.columnar import Unsure
from maxq.checkers.core.keyed import BULK, events_of
from maxq.checkers.judgement.piecewise.asks import (
    Ask,
    Deal,
    Each,
    Plan,
    Reread,
    Survey,
    carried_out,
    named,
    silent,
)
from maxq.checkers.judgement.piecewise.buckets import (
    HELD,
    HELD_AS_ROWS,
    Buckets,
    buckets_for,
    whole,
)
from maxq.checkers.judgement.piecewise.dealt import (
    Found,
    Judged,
    Judging,
    Request,
    Small,
    Task,
    merged,
)
from maxq.checkers.judgement.piecewise.looked_up import evidence_of, ops_at
from maxq.checkers.judgement.piecewise.memory import Memory
from maxq.checkers.judgement.piecewise.pieces import Collected, Dealer, Surveyed, Surveyor
from maxq.histories.columns.outline import Edges, Outline, Reading, breaches_of, rows_of
from maxq.histories.columns.timings import Timings, timings_in
from maxq.histories.observed import REPLICA_LOG
from maxq.histories.op import Op, without_cycles

MEMORY = Memory(aim=1 << 29, most=1 << 40)


def judge_batches(
    reading: Reading,
    request: Request,
    memory: Callable[[], Memory] = lambda: MEMORY,
    timed: Reading | None = None,
    begins: Callable[[str], None] = silent,
) -> Judged:
    """Judge one history in this process.

    Args:
        reading: gives the batches of its events table.
        request: by whom it is judged.
        memory: what rows that are dealt out may take now; the rest is in files.
        timed: gives the same without what operations say, if that takes less time.
        begins: hears of each step, for people.

    Raises:
        HistoryError: a row is no operation.
    """

    def answer(ask: Ask) -> Any:
        if isinstance(ask, Reread):
            return timed or reading
        begins(named(ask))
        memory()  # has what is free given back: a step leaves behind what it read
        return _answer(reading, ask, memory, begins)

    with without_cycles():  # a quarter of the time of a large history
        return carried_out(judging_of(request), answer)


def _answer(
    reading: Reading,
    ask: Ask,
    memory: Callable[[], Memory],
    begins: Callable[[str], None] = silent,
) -> Any:
    match ask:
        case Survey():
            look = Surveyor()
            return map(look, reading(None))  # each is done with before the next is read
        case Each():
            pieces = rows_of(reading, ask.outline, ask.pieces)
            return [ask.look(rows) for rows in pieces]
        case Deal():
            with ExitStack() as files:
                collected = _collector(ask, memory, files)
                dealer = Dealer(ask.tasks, ask.held, by_rows=ask.by_rows)
                for number, rows in enumerate(rows_of(reading, ask.outline, ask.pieces)):
                    collected.take(number, dealer.read(rows))
                begins("judging queues, locks and broker sets")
                return whole(collected.judged())


def _collector(ask: Deal, memory: Callable[[], Memory], files: ExitStack) -> Collected | Buckets:
    few = ask.pieces is not None  # of which not all rows are wanted
    buckets = 1 if few else buckets_for(ask.outline.rows, memory().aim)
    if buckets == 1:
        return Collected(ask.tasks)
    own = [files.enter_context(TemporaryFile()) for _ in range(buckets)]  # noqa: SIM115
    return Buckets(ask.tasks, own, memory, HELD_AS_ROWS if ask.by_rows else HELD)


def judging_of(request: Request) -> Plan[Judged]:
    """How one history is judged."""
    outline, ops = _joined((yield Survey()))
    reading: Reading = yield Reread()

    @cache
    def timings() -> Timings:
        return timings_in(rows_of(reading, outline))

    small = Small(ops, outline.totals, timings, outline.reassigned)
    judging = Judging(request, small)
    known = _known(outline, small)
    found = yield from _found(judging, small, outline, known)
    if more := judging.again(found):
        found = merged(found, (yield Deal(more, outline, known, by_rows=True)))
    evidence = yield from ops_at(outline, judging.evidence(found))
    judged = judging.judged(found, evidence, breaches_of(reading, outline))
    here = {op.index for op in judged.history if op.f != REPLICA_LOG}  # those are slim
    shown = yield from evidence_of(outline, judged.history, judged.results, frozenset(here))
    return judged._replace(history=judging.history([*evidence, *shown])) if shown else judged


def _joined(surveyed: Iterable[Surveyed]) -> tuple[Outline, list[Op]]:
    """What joins pieces, and what is small of all of them."""
    ops: list[Op] = []

    def edges() -> Iterator[Edges]:
        for piece in surveyed:
            ops.extend(piece.small)
            yield piece.edges

    return Outline(edges()), ops


def _known(outline: Outline, small: Small) -> Mapping[int, Op]:
    """The operations that are held whole, by index; none where an index may not be of one alone."""
    if not outline.sound:
        return {}
    return {op.index: op for op in small.ops if op.f != REPLICA_LOG}


def _found(
    judging: Judging, small: Small, outline: Outline, known: Mapping[int, Op]
) -> Plan[Found]:
    large = BULK & {f for f, _ in outline.totals}
    held = {n: task for n, task in judging.tasks.items() if large.isdisjoint(task.check.reads)}
    dealt_out = {name: task for name, task in judging.tasks.items() if name not in held}
    found: dict[str, dict[Any, Any] | Exception] = {**_of_small(held, small)}
    found |= yield Deal(dealt_out, outline, known)
    for asked in _left(dealt_out, found, outline, known):
        more: Found = yield asked
        found |= {name: _with(found[name], own) for name, own in more.items()}
    return found


def _left(
    tasks: Mapping[str, Task], found: Found, outline: Outline, known: Mapping[int, Op]
) -> Iterator[Deal]:
    """What is left to rows: to those of few operations, and to all."""
    unsure = {name: keys for name in tasks if (keys := _unsure(found[name]))}
    few: dict[str, Task] = {}
    all_rows: dict[str, Task] = {}
    wanted = set[int]()
    for name, keys in unsure.items():
        some = {key: one for key, one in keys.items() if one.ops is not None}
        if some:
            ops = np.unique(np.concatenate([np.array(one.ops, np.int64) for one in some.values()]))
            more = {key: one.more for key, one in some.items()}
            few[name] = tasks[name]._replace(more=more, only=ops)
            wanted.update(ops.tolist())
        if rest := [key for key in keys if key not in some]:
            all_rows[name] = tasks[name]._replace(more=dict.fromkeys(rest))
    if few:
        yield Deal(few, outline, known, by_rows=True, pieces=outline.pieces_of(wanted))
    if all_rows:
        yield Deal(all_rows, outline, known, by_rows=True)


def _with(found: Any, more: Any) -> Any:
    """What was found of keys, with what their rows say; or what went wrong."""
    if isinstance(found, Exception) or isinstance(more, Exception):
        return found if isinstance(found, Exception) else more
    return dict(sorted({**found, **more}.items()))


def _unsure(results: dict[Any, Any] | Exception) -> dict[Any, Unsure]:
    """The keys that are left to their rows."""
    if isinstance(results, Exception):
        return {}
    return {key: one for key, one in results.items() if isinstance(one, Unsure)}


def _of_small(tasks: Mapping[str, Task], small: Small) -> Found:
    """What checks find in the small part, which they need not be dealt once more."""
    history = small.alone
    found: dict[str, dict[Any, Any] | Exception] = {}
    for name, task in tasks.items():
        rows: dict[Any, list[Any]] = defaultdict(list)
        try:
            for event in events_of(history, task.check.reads):
                for key, said in task.check.rows(event, task.known):
                    rows[key].append(said)
            found[name] = {
                key: task.check.judge(key, own, task.known) for key, own in sorted(rows.items())
            }
        except Exception as error:
            found[name] = error
    return found
