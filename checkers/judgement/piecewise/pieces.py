"""One piece of a history: its small part, and what its other rows say of which keys.

What pieces say is `Collected` in order, wherever that is, and each key is judged there.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from maxq.checkers.core.columnar import (
    UNSURE,
    Columnar,
    Dealing,
    KeyArrays,
    judged_groups,
    touching,
)
from maxq.checkers.core.keyed import BULK, Event
from maxq.checkers.judgement.piecewise.dealt import LARGE, Task, slim
from maxq.histories.columns.log_texts import Bodies, slimmed
from maxq.histories.columns.outline import Edges, edges_of
from maxq.histories.columns.rows import Columns, Rows, taken, text_at
from maxq.histories.columns.scan import Ints, Mask
from maxq.histories.observed import REPLICA_LOG
from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import Values, op_of_row


class Surveyed(NamedTuple):
    """What a piece says of itself, and its part of what is held."""

    edges: Edges
    small: list[Op]


class Surveyor:
    """Looks at pieces one after the other; equal values are held once."""

    def __init__(self) -> None:
        self._values = Values()

    def __call__(self, batch: pa.RecordBatch) -> Surveyed:
        """Look at one.

        Raises:
            HistoryError: a row is no operation.
        """
        columns = Columns.of(batch)
        at = np.flatnonzero(~(columns.client & columns.of_kinds(LARGE)))
        stored = (columns.client & columns.of_kinds((REPLICA_LOG,)))[at]
        return Surveyed(edges_of(batch, columns), list(_small(batch, at, stored, self._values)))


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


class Failed(NamedTuple):
    """Why a task came to nothing. Of several the lowest counts: `at` is 0 and the number of the
    piece that could not be read, 1 and the key that could not be judged, or 2: too large."""

    at: tuple[int, Any]
    error: Exception


class Said(NamedTuple):
    """What one piece says to each task: arrays, rows by key, or why it cannot be read."""

    dealings: dict[str, Dealing]
    rows: dict[str, dict[Any, list[Any]]]
    failed: dict[str, Exception]


class Dealer:
    """Reads pieces for some tasks.

    Args:
        tasks: the checks.
        held: operations that need not be read once more, by index.
        by_rows: without arrays.
    """

    def __init__(self, tasks: Mapping[str, Task], held: Mapping[int, Op], *, by_rows: bool) -> None:
        self._tasks = tasks
        self._held = held
        arrays = {n for n, t in tasks.items() if isinstance(t.check, Columnar) and not by_rows}
        self._arrays = {name: tasks[name] for name in sorted(arrays)}
        self._rows = {name: task for name, task in tasks.items() if name not in arrays}

    def read(self, rows: Rows) -> Said:
        """What a piece says."""
        said = Said({}, {}, {})
        self._read_rows(rows, said)
        for name, task in self._arrays.items():
            check: Columnar[Any, Any, Any] = task.check  # type: ignore[assignment]
            try:
                said.dealings[name] = check.columns(rows, _chosen(rows, task), task.known)
            except HistoryError as error:
                said.failed[name] = error
        return said

    def _read_rows(self, rows: Rows, said: Said) -> None:
        wanted = {name: _wanted(rows, task) for name, task in self._rows.items()}
        events = {
            at: Event(op, begun, bool(rows.open[at]))
            for at, op, begun in self._events(rows, wanted)
        }
        for name, at in wanted.items():
            task, dealt = self._tasks[name], defaultdict[Any, list[Any]](list)
            said.rows[name] = dealt
            try:
                for row in at.tolist():
                    for key, one in task.check.rows(events[row], task.known):
                        if task.more is None or key in task.more:
                            dealt[key].append(one)
            except Exception as error:
                said.failed[name] = error

    def _events(
        self, rows: Rows, wanted: Mapping[str, Ints]
    ) -> Iterator[tuple[int, Op, Op | None]]:
        """The operations that are wanted, those at which all are blind without their values."""
        whole, bare = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for name, at in wanted.items():
            check = self._tasks[name].check
            blind = rows.is_of(at, *check.blind)
            whole.append(at[~blind])
            bare.append(at[blind])
        seen = np.unique(np.concatenate(whole))
        small = seen[~rows.of(BULK)[seen]].tolist() if self._held else []
        held = [(at, *both) for at in small if (both := self._known(rows, at)) is not None]
        yield from held
        yield from rows.events(np.setdiff1d(seen, [at for at, *_ in held]))
        yield from rows.events(np.setdiff1d(np.concatenate(bare), seen), bare=True)

    def _known(self, rows: Rows, at: int) -> tuple[Op, Op | None] | None:
        """A row's operation, and its invocation if it is a completion, where both are held."""
        op = self._held.get(int(rows.index[at]))
        if op is None or op.type == "invoke":
            return None if op is None else (op, None)
        asked = self._held.get(int(rows.begun[at]))
        return None if asked is None else (op, asked)


def _chosen(rows: Rows, task: Task) -> Ints:
    """The rows that a check reads."""
    return np.flatnonzero(rows.client & rows.of(task.check.reads))


def _wanted(rows: Rows, task: Task) -> Ints:
    """Those that may say something of the keys that are asked for."""
    chosen, check = _chosen(rows, task), task.check
    if task.only is not None:
        return chosen[np.isin(rows.index[chosen], task.only)]
    if task.more is not None and isinstance(check, Columnar):
        return touching(check.columns(rows, chosen, task.known), frozenset(task.more))
    return check.sift(rows, chosen, task.known)


class Collected:
    """What pieces said to some tasks."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._tasks = tasks
        self._arrays: dict[str, KeyArrays] = {}
        self._rows: dict[str, dict[Any, list[Any]]] = {}
        self._failed: dict[str, Failed] = {}

    def take(self, number: int, said: Said) -> None:
        """Take the next piece's; `number` is the piece's own."""
        for name, error in said.failed.items():
            self._failed.setdefault(name, Failed((0, number), error))
        for name, dealing in said.dealings.items():
            if name not in self._failed:
                self._arrays.setdefault(name, KeyArrays()).take(dealing)
        for name, rows in said.rows.items():
            if name not in self._failed:
                own = self._rows.setdefault(name, {})
                for key, more in rows.items():
                    own.setdefault(key, []).extend(more)

    def judged(self) -> dict[str, dict[Any, Any] | Failed]:
        """Each key's result, by task, `Unsure` where arrays cannot say; or why there is none. Once:
        what was collected is given away."""
        found: dict[str, dict[Any, Any] | Failed] = {}
        for name, task in self._tasks.items():
            if name in self._failed:
                found[name] = self._failed[name]
            elif name in self._arrays:
                found[name] = _by_arrays(task, self._arrays.pop(name))
            else:
                found[name] = _by_rows(task, self._rows.pop(name, {}))
        return found


def _by_arrays(task: Task, arrays: KeyArrays) -> dict[Any, Any]:
    check: Columnar[Any, Any, Any] = task.check  # type: ignore[assignment]
    groups = arrays.groups()
    results = dict(zip(groups.keys, judged_groups(check, groups, task.known), strict=True))
    return {**results, **dict.fromkeys(arrays.unsure, UNSURE)}


def _by_rows(task: Task, rows: Mapping[Any, list[Any]]) -> dict[Any, Any] | Failed:
    more = task.more or {}
    found: dict[Any, Any] = {}
    for key, own in sorted(rows.items()):
        try:
            found[key] = task.check.judge(key, own, task.known, more.get(key))
        except Exception as error:
            return Failed((1, key), error)
    return found
