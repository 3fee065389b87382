"""Judges a history that is read batch by batch: no operation of a large kind is ever held.

Three readings: one for the outline and the small part, one that deals rows out, as arrays where a
check has them (`maxq.checkers.core.columnar`), one for the operations that checks ask for. A fourth
deals out the rows of keys of which arrays could not say that nothing is wrong. Where something was
found, what shows it is looked up (`maxq.checkers.judgement.looked_up`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from maxq.checkers.core.columnar import (
    Blind,
    Columnar,
    KeyArrays,
    Sifted,
    Unsure,
    judged_groups,
    touching,
)
from maxq.checkers.core.keyed import BULK, Event, events_of
from maxq.checkers.judgement.dealt import (
    LARGE,
    Found,
    Judged,
    Judging,
    Request,
    Small,
    Task,
    merged,
    slim,
)
from maxq.checkers.judgement.looked_up import Reading, evidence_of, ops_at
from maxq.histories.columns.log_texts import Bodies, slimmed
from maxq.histories.columns.orderly import breaches_of
from maxq.histories.columns.rows import (
    Outline,
    OutlineMaker,
    Rows,
    reassigned,
    rows_of,
    taken,
    text_at,
    timings,
)
from maxq.histories.columns.scan import Ints, Mask
from maxq.histories.observed import REPLICA_LOG
from maxq.histories.op import HistoryError, Op, without_cycles
from maxq.histories.tables import Values, op_of_row

Dealt = dict[str, dict[Any, list[Any]]]  # rows, by task and key


def judge_batches(reading: Reading, request: Request) -> Judged:
    """Judge one history.

    Args:
        reading: gives the batches of its events table, in order, as often as it is called.
        request: by whom it is judged.

    Raises:
        HistoryError: a row is no operation.
    """
    with without_cycles():  # a quarter of the time of a large history
        return _judge_batches(reading, request)


def _judge_batches(reading: Reading, request: Request) -> Judged:
    outline, small, others = _outlined(reading())
    judging = Judging(request, small)
    large = BULK & {f for f, _ in outline.totals}
    held = {
        name: task for name, task in judging.tasks.items() if large.isdisjoint(task.check.reads)
    }
    dealt_out = {name: task for name, task in judging.tasks.items() if name not in held}
    known = _known(outline, small)
    found: Found = {**_of_small(held, small), **_found(reading, outline, dealt_out, known)}
    if more := judging.again(found):
        found = merged(found, _by_rows(reading, outline, more, known))
    evidence = ops_at(reading, outline, judging.evidence(found))
    judged = judging.judged(found, evidence, breaches_of(outline, others))
    here = {op.index for op in judged.history if op.f != REPLICA_LOG}  # those are slim
    shown = evidence_of(reading, outline, judged.history, judged.results, frozenset(here))
    return judged._replace(history=judging.history([*evidence, *shown])) if shown else judged


def _outlined(batches: Iterator[pa.RecordBatch]) -> tuple[Outline, Small, dict[int, Op]]:
    maker, base = OutlineMaker(), 0
    ops: list[Op] = []
    others: dict[int, Op] = {}
    values = Values()
    for batch in batches:
        client, f = maker.take(batch)
        names = maker.names()
        large = [n for n, name in enumerate(names) if name in LARGE]
        at = np.flatnonzero(~(client & np.isin(f, large)))
        stored = client[at] & np.isin(f[at], [n for n, name in enumerate(names)
                                              if name == REPLICA_LOG])  # fmt: skip
        for row, op in zip(at.tolist(), _small(batch, at, stored, values), strict=True):
            ops.append(op)
            if not client[row]:
                others[base + row] = op
        base += len(batch)
    outline = maker.done()
    small = Small(ops, outline.totals, partial(timings, outline), reassigned(outline))
    return outline, small, others


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


def _small(batch: pa.RecordBatch, at: Ints, stored: Mask, values: Values) -> Iterator[Op]:
    """Some rows as operations, slim; those that are `stored` logs are long texts."""
    short = iter(values.ops_of(taken(batch, at[~stored])))
    bodies = Bodies()
    for row, long in zip(at.tolist(), stored.tolist(), strict=True):
        yield _slim(batch, row, bodies) if long else next(short)


def _slim(batch: pa.RecordBatch, row: int, bodies: Bodies) -> Op:
    ok = batch["type"][row].as_py() == "ok"
    text = slimmed(text_at(batch["value"], row), bodies) if ok else None
    rest = batch if text is None else batch.drop_columns(["value"])
    return slim(op_of_row({"value": text, **rest.slice(row, 1).to_pylist()[0]}))


def _known(outline: Outline, small: Small) -> Mapping[int, Op]:
    """The operations that are held whole, by index; none where an index is not of one alone."""
    if (outline.index[1:] <= outline.index[:-1]).any():
        return {}
    return {op.index: op for op in small.ops if op.f != REPLICA_LOG}


def _found(
    reading: Reading, outline: Outline, tasks: Mapping[str, Task], known: Mapping[int, Op]
) -> Found:
    quick = {name: (t.check, KeyArrays()) for name, t in tasks.items()
             if isinstance(t.check, Columnar)}  # fmt: skip
    rest = {name: task for name, task in tasks.items() if name not in quick}
    dealer = _Dealer(outline, rest, known)
    failed: dict[str, Exception] = {}
    for rows in rows_of(reading(), outline):
        dealer.take(rows)
        for name, (check, arrays) in quick.items():
            task = tasks[name]
            try:
                if name not in failed:
                    arrays.take(check.columns(rows, dealer.chosen(rows, task), task.known))
            except HistoryError as error:
                failed[name] = error
    found: dict[str, dict[Any, Any] | Exception] = dict(dealer.judged())
    unsure: dict[str, Task] = {}
    for name, (check, arrays) in quick.items():
        results, left = _judged(check, tasks[name].known, arrays)
        found[name] = failed.get(name, results)
        if left and name not in failed:
            unsure[name] = tasks[name]._replace(more=dict.fromkeys(left))
    for name, more in (_by_rows(reading, outline, unsure, known) if unsure else {}).items():
        sure = found[name]
        if isinstance(more, dict) and isinstance(sure, dict):
            found[name] = dict(sorted({**sure, **more}.items()))
        else:
            found[name] = more
    return found


def _judged(
    check: Columnar[Any, Any, Any], known: Any, arrays: KeyArrays
) -> tuple[dict[Any, Any], set[Any]]:
    """The results of keys of which nothing is wrong, and the other keys."""
    groups = arrays.groups()
    results: dict[Any, Any] = {}
    left = set(arrays.unsure)
    for key, result in zip(groups.keys, judged_groups(check, groups, known), strict=True):
        if isinstance(result, Unsure):
            left.add(key)
        else:
            results[key] = result
    return results, left


def _by_rows(
    reading: Reading, outline: Outline, tasks: Mapping[str, Task], known: Mapping[int, Op]
) -> Found:
    dealer = _Dealer(outline, tasks, known)
    for rows in rows_of(reading(), outline):
        dealer.take(rows)
    return dealer.judged()


class _Dealer:
    """Deals the rows of a history out, one by one, and judges each key.

    Args:
        known: operations that need not be read once more, by index.
    """

    def __init__(
        self, outline: Outline, tasks: Mapping[str, Task], known: Mapping[int, Op]
    ) -> None:
        self._outline = outline
        self._known = known
        self._tasks = tasks
        self._dealt: Dealt = {name: defaultdict(list) for name in tasks}
        self._failed: dict[str, Exception] = {}

    def chosen(self, rows: Rows, task: Task) -> Ints:
        """The rows that a check reads."""
        return np.flatnonzero(rows.client & rows.of(task.check.reads))

    def take(self, rows: Rows) -> None:
        """Deal the rows of the next batch out."""
        wanted = {name: self._wanted(rows, task) for name, task in self._tasks.items()}
        events = {
            at: Event(op, begun, bool(rows.open[at]))
            for at, op, begun in self._events(rows, wanted)
        }
        for name, at in wanted.items():
            task, dealt = self._tasks[name], self._dealt[name]
            if name in self._failed:
                continue
            try:
                for row in at.tolist():
                    for key, said in task.check.rows(events[row], task.known):
                        if task.more is None or key in task.more:
                            dealt[key].append(said)
            except Exception as error:
                self._failed[name] = error

    def _events(
        self, rows: Rows, wanted: Mapping[str, Ints]
    ) -> Iterator[tuple[int, Op, Op | None]]:
        """The operations that are wanted, those at which all are blind without their values."""
        whole, bare = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for name, at in wanted.items():
            check = self._tasks[name].check
            blind = rows.is_of(at, *(check.blind if isinstance(check, Blind) else ()))
            whole.append(at[~blind])
            bare.append(at[blind])
        seen = np.unique(np.concatenate(whole))
        small = seen[~rows.of(BULK)[seen]].tolist() if self._known else []
        held = [(at, *both) for at in small if (both := self._held(rows, at)) is not None]
        yield from held
        yield from rows.events(np.setdiff1d(seen, [at for at, *_ in held]))
        yield from rows.events(np.setdiff1d(np.concatenate(bare), seen), bare=True)

    def _held(self, rows: Rows, at: int) -> tuple[Op, Op | None] | None:
        """A row's operation, and its invocation if it is a completion, where both are known."""
        op = self._known.get(int(rows.index[at]))
        if op is None or op.type == "invoke":
            return None if op is None else (op, None)
        begun = int(rows.begun[at])
        if begun < 0:
            return None
        asked = self._known.get(begun)
        return None if asked is None else (op, asked)

    def _wanted(self, rows: Rows, task: Task) -> Ints:
        chosen, check = self.chosen(rows, task), task.check
        if task.more is not None and isinstance(check, Columnar):
            return touching(check.columns(rows, chosen, task.known), frozenset(task.more))
        return check.sift(rows, chosen, task.known) if isinstance(check, Sifted) else chosen

    def judged(self) -> Found:
        """Each key's result, by task; or what went wrong first."""
        return {name: self._judged(name, task) for name, task in self._tasks.items()}

    def _judged(self, name: str, task: Task) -> dict[Any, Any] | Exception:
        if name in self._failed:
            return self._failed[name]
        more = task.more or {}
        try:
            return {
                key: task.check.judge(key, rows, task.known, more.get(key))
                for key, rows in sorted(self._dealt[name].items())
            }
        except Exception as error:
            return error
