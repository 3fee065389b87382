"""Deals the rows of keyed checks out over a cluster, and brings back what each key proves.

One pass over the events feeds every check of every run: an Arrow batch becomes, for each key that
it touches, one piece of pickled rows; a shuffle brings the pieces of a key together; and there its
rows, sorted by the index of their events, are judged. Rows never come in an order that any code
could rely on, and indices of a history are all different, so partitions do not matter.

A key's rows are held at once by one task; keys follow one another. Pickles are written and read by
our own workers within one job and are never stored.
"""

import pickle
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from maxq.checkers.core.keyed import Event
from maxq.checkers.judgement.dealt import Task
from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import op_of_row
from maxq.spark_checkers.rules import Rules

PIECES = "run string, task string, key string, rows binary"
RESULTS = "run string, task string, key string, result binary"
FAILED = "!"  # the key of what could not become rows

TaskId = tuple[str, str]  # run, and name in it
Batches = Iterable[pa.RecordBatch]


class Failure(NamedTuple):
    """A value that could not be read at an index, or a key that could not be judged."""

    at: Any
    error: Exception


def deal(
    joined: Any, tasks: Mapping[TaskId, Task], partitions: int
) -> dict[TaskId, dict[Any, Any] | Exception]:
    """Judge every key of every task.

    Args:
        joined: events with their invocations, as `maxq.spark_checkers.events.joined` makes them.
        tasks: the checks.
        partitions: into how many pieces rows are dealt.

    Returns:
        By task, each key's result in order of keys; or why there is none.
    """
    context = joined.sparkSession.sparkContext
    sent = context.broadcast(dict(tasks))
    pieces = joined.mapInArrow(_dealer(lambda: sent.value), PIECES)
    sorted_pieces = pieces.repartition(partitions, "run", "task", "key").sortWithinPartitions(
        "run", "task", "key"
    )
    judged = sorted_pieces.mapInArrow(_judges(lambda: sent.value), RESULTS).collect()
    sent.unpersist()
    found: dict[TaskId, dict[Any, Any]] = {task: {} for task in tasks}
    failures: dict[TaskId, list[Failure]] = defaultdict(list)
    for row in judged:
        result = pickle.loads(bytes(row["result"]))
        if isinstance(result, Failure):
            failures[row["run"], row["task"]].append(result)
        else:
            key, judged = result
            found[row["run"], row["task"]][key] = judged
    return {task: _whole(found[task], failures[task]) for task in tasks}


def _whole(results: dict[Any, Any], failures: list[Failure]) -> dict[Any, Any] | Exception:
    if failures:
        # As where a history is read from its beginning: the first that goes wrong is reported.
        return min(failures, key=lambda failure: failure.at).error
    return dict(sorted(results.items()))


TaskMap = Callable[[], Mapping[TaskId, Task]]


def _dealer(tasks: TaskMap) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        of_run: dict[str, list[tuple[str, Task]]] = defaultdict(list)
        for (name, task_name), task in tasks().items():
            of_run[name].append((task_name, task))
        for batch in batches:
            yield _dealt(batch, of_run)

    return run


def _dealt(batch: pa.RecordBatch, of_run: Mapping[str, list[tuple[str, Task]]]) -> pa.RecordBatch:
    pieces: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for row in batch.to_pylist():
        run = row["run_id"]
        wanted = [(n, t) for n, t in of_run.get(run, ()) if row["f"] in t.check.reads]
        if not wanted:
            continue
        event = event_of(row)
        at = event.op.index
        for name, task in wanted:
            if not event.op.is_client and not isinstance(task.check, Rules):
                continue
            try:
                for key, rows in task.check.rows(event, task.known):
                    if task.more is None or key in task.more:
                        pieces[run, name, repr(key)].append((at, key, rows))
            except Exception as error:
                pieces[run, name, FAILED].append(Failure((0, at), _carried(error)))
    runs, names, keys = zip(*pieces, strict=True) if pieces else ((), (), ())
    blobs = [pickle.dumps(rows) for rows in pieces.values()]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, pa.string()) for c in (runs, names, keys)] + [pa.array(blobs, pa.binary())],
        names=["run", "task", "key", "rows"],
    )


def event_of(row: Mapping[str, Any]) -> Event:
    """The event of a row of `joined`; of its invocation index, time and value are known."""
    op = op_of_row(dict(row))
    if op.type == "invoke":
        return Event(op, None, row["pair"] < 0)
    if row["begun_time"] is None:
        return Event(op, None, False)
    same = {"type": "invoke", "process": row["process"], "f": row["f"], "index": row["pair"]}
    began = {"time": row["begun_time"], "value": row["begun_value"], "error": None, "ext": None}
    begun = op_of_row({**same, **began})
    return Event(op, begun, False)


def _carried(error: Exception) -> Exception:
    """An error as it can travel: of one that is ours the kind matters, of others the text."""
    if isinstance(error, HistoryError):
        return error
    return RuntimeError("".join(traceback.format_exception(error)))


def _judges(tasks: TaskMap) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for (name, task_name, key), pieces in groupby(_pieces(batches), key=lambda p: p[:3]):
            rows = [row for *_, blob in pieces for row in pickle.loads(blob)]
            results = _judged(tasks()[name, task_name], key, rows)
            blobs = [pickle.dumps(result) for result in results]
            same = len(blobs)
            yield pa.RecordBatch.from_arrays(
                [pa.array([word] * same, pa.string()) for word in (name, task_name, key)]
                + [pa.array(blobs, pa.binary())],
                names=["run", "task", "key", "result"],
            )

    return run


def _pieces(batches: Batches) -> Iterator[tuple[str, str, str, bytes]]:
    for batch in batches:
        columns = (batch.column(i).to_pylist() for i in range(4))
        yield from zip(*columns, strict=True)


def _judged(task: Task, key: str, rows: list[Any]) -> list[Any]:
    if key == FAILED:
        return [min(rows, key=lambda failure: failure.at)]
    rows.sort(key=lambda row: row[0])  # stable: the rows of one event for one key keep their order
    own = rows[0][1]
    found = [row for _, _, row in rows]
    more = None if task.more is None else task.more[own]
    try:
        return [(own, task.check.judge(own, found, task.known, more))]
    except Exception as error:
        return [Failure((1, own), _carried(error))]


def op_of(blob: bytes) -> Op:
    """An operation that a worker has pickled."""
    op: Op = pickle.loads(blob)
    return op
