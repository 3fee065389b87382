"""The jobs of a judge on Spark: tasks read pieces of tables themselves, and what they say of keys
is shuffled once, as arrays.

A task's input is the numbers of pieces (`Part`), its output is pickled, so the JVM carries bytes
and looks at none. Pickles are written and read by our own workers within one job and are never
stored. A history that cannot be read is no accident of a task: it comes back as an answer.
"""

import os
import pickle
import platform
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from maxq.checkers.judgement.piecewise.buckets import Buckets, OfTasks, merged, packed, whole
from maxq.checkers.judgement.piecewise.by_columns import MEMORY
from maxq.checkers.judgement.piecewise.dealt import Task
from maxq.checkers.judgement.piecewise.memory import Memory, give_back, memory_free
from maxq.checkers.judgement.piecewise.pieces import Dealer, Surveyor
from maxq.histories.columns.rows import Open, Rows
from maxq.histories.columns.scan import Ints
from maxq.histories.op import HistoryError, without_cycles
from maxq.histories.parquet import JUDGED, Files, read_coded

# Bytes of an answer, in which pieces, or parts of one, say something to a partition, at most; and
# of all that a task holds until it sends them. A few rows, of a whole log, may say much.
ANSWER, HELD = 1 << 20, 1 << 25
OfTask = tuple[str, int, bytes, int]  # task, number of a piece, what it says, which part of that
SPOOLED = 1 << 25  # bytes of a run that a partition holds in memory; more of it are in a file
FOLDERS = "SPARK_LOCAL_DIRS"  # where Spark has its workers keep files
_NONE = np.zeros(0, np.int64)


class Part(NamedTuple):
    """Pieces of one run for one task. `before` and `never` are as `Rows` has them, once the
    history's outline is known."""

    run: str
    files: Files
    pieces: Sequence[int]
    before: Sequence[Open] = ()
    never: Ints = _NONE

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The pieces.

        Raises:
            HistoryError: one cannot be read.
        """
        for file in self.files:
            if not file.path.exists():
                where = f"worker {platform.node()} of Spark has no {file.path}"
                raise HistoryError(f"{where}: put the table where every machine finds it")
        return read_coded(self.files, JUDGED, self.pieces)

    def rows(self) -> Iterator[tuple[int, Rows]]:
        """The pieces with their numbers."""
        batches = self.batches()
        for number, before, batch in zip(self.pieces, self.before, batches, strict=True):
            yield number, Rows(batch, before, self.never)


Look = Callable[[Part], list[Any]]


def each(context: Any, parts: Sequence[tuple[Part, Look]], tasks: int) -> list[list[Any]]:
    """What functions say of the pieces of some parts, in order.

    Args:
        context: Spark's.
        parts: each with its function.
        tasks: over how many tasks they are dealt, at most.

    Raises:
        HistoryError: a piece cannot be read.
    """
    if not parts:
        return []
    blobs = [pickle.dumps(part) for part in parts]
    asked = context.parallelize(blobs, min(tasks, len(blobs)))
    found = [pickle.loads(blob) for blob in asked.map(_looked).collect()]
    for one in found:
        if isinstance(one, HistoryError):
            raise one
    return found


def _looked(blob: bytes) -> bytes:
    part, look = pickle.loads(blob)
    try:
        with without_cycles():
            return pickle.dumps(look(part))
    except HistoryError as error:
        return pickle.dumps(error)


def surveyed(part: Part) -> list[Any]:
    """What each piece says of itself."""
    return list(map(Surveyor(), part.batches()))


def looked_at(look: Callable[[Rows], Any], part: Part) -> list[Any]:
    """What a function says of each piece."""
    return [look(rows) for _, rows in part.rows()]


class Dealt(NamedTuple):
    """The tasks of a run, and whether their keys are judged by rows."""

    tasks: Mapping[str, Task]
    by_rows: bool


def deal(
    context: Any, parts: Sequence[Part], runs: Mapping[str, Dealt], *, tasks: int, partitions: int
) -> dict[str, dict[str, dict[Any, Any] | Exception]]:
    """Judge every key of every task of some runs.

    Args:
        context: Spark's.
        parts: all pieces of these runs.
        runs: their checks.
        tasks: over how many tasks the pieces are dealt, at most.
        partitions: over how many tasks keys are dealt.

    Returns:
        By run and task each key's result, in order of keys; or why there is none.

    Raises:
        HistoryError: a piece cannot be read.
    """
    found: dict[str, OfTasks] = {run: {n: {} for n in of.tasks} for run, of in runs.items()}
    if not parts:
        return {run: whole(of) for run, of in found.items()}
    known = context.broadcast({run: pickle.dumps(dealt) for run, dealt in runs.items()})
    blobs = [pickle.dumps(part) for part in parts]
    asked = context.parallelize(blobs, min(tasks, len(blobs)))
    sent = _shuffled(asked.flatMap(partial(_sent, known, partitions)), partitions)
    judged = sent.mapPartitions(partial(_judged, known))
    for blob in judged.collect():
        answer = pickle.loads(blob)
        if isinstance(answer, HistoryError):
            raise answer
        for run, of_run in answer.items():
            found[run] = merged(found[run], of_run)
    known.unpersist()
    return {run: whole(of) for run, of in found.items()}


def _shuffled(sent: Any, partitions: int) -> Any:
    """What tasks sent to each partition, in no order. As `RDD.partitionBy` does it, but each answer
    goes to the JVM at once: that one holds a megabyte for each partition, in every task."""
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer, pack_long
    from pyspark.traceback_utils import SCCallSiteSync

    context = sent.ctx

    def framed(answers: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
        for partition, blob in answers:
            yield pack_long(partition)
            yield blob

    keyed = sent.mapPartitions(framed, True)
    keyed._bypass_serializer = True
    with SCCallSiteSync(context):
        pairs = context._jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
        by_number = context._jvm.PythonPartitioner(partitions, id(framed))
    values = context._jvm.PythonRDD.valueOfPair(pairs.partitionBy(by_number))
    return RDD(values, context, NoOpSerializer())


def _sent(known: Any, partitions: int, blob: bytes) -> Iterator[tuple[int, bytes]]:
    """What the pieces of a part say, by partition."""
    part: Part = pickle.loads(blob)
    tasks, by_rows = pickle.loads(known.value[part.run])
    dealer = Dealer(tasks, {}, by_rows=by_rows)
    try:
        with without_cycles():
            yield from _answers(part.run, _said(part, dealer, partitions))
    except HistoryError as error:
        yield 0, pickle.dumps(error)


def _said(part: Part, dealer: Dealer, partitions: int) -> Iterator[tuple[int, OfTask]]:
    """What the pieces say to each task of a partition, in parts."""
    for number, rows in part.rows():
        for partition, name, said in packed(number, dealer.read(rows), partitions):
            for n, at in enumerate(range(0, len(said), ANSWER)):
                yield partition, (name, number, said[at : at + ANSWER], n)


def _answers(run: str, said: Iterable[tuple[int, OfTask]]) -> Iterator[tuple[int, bytes]]:
    """The same, as many as make an answer at a time."""
    held, size, every = defaultdict[int, list[OfTask]](list), Counter[int](), 0
    for partition, one in said:
        held[partition].append(one)
        size[partition] += len(one[2])
        every += len(one[2])
        full = [partition] if size[partition] >= ANSWER else []
        for each in [*held] if every >= HELD else full:
            yield each, pickle.dumps((run, held.pop(each)), pickle.HIGHEST_PROTOCOL)
            every -= size.pop(each)
    for partition, rest in held.items():
        yield partition, pickle.dumps((run, rest), pickle.HIGHEST_PROTOCOL)


def _judged(known: Any, answers: Iterable[bytes]) -> Iterator[bytes]:
    """What the keys of a partition come to. One check of a run is held at a time."""
    said: dict[str, Buckets] = {}
    with ExitStack() as files, without_cycles():
        for blob in answers:
            found = pickle.loads(blob)
            if isinstance(found, HistoryError):
                yield blob
                return
            run, more = found
            if run not in said:
                dealt: Dealt = pickle.loads(known.value[run])
                folder = os.environ.get(FOLDERS, "").partition(",")[0] or None
                own = files.enter_context(SpooledTemporaryFile(SPOOLED, dir=folder))
                said[run] = Buckets(dealt.tasks, [own], _memory)
            for of_task in more:
                said[run].put(0, *of_task)
        yield pickle.dumps({run: of.judged() for run, of in said.items()})


def _memory() -> Memory:
    give_back()
    return Memory(MEMORY.aim, memory_free())
