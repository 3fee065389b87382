"""The jobs of a judge on Spark: tasks read pieces of tables themselves, and what they say of keys
is shuffled once, as arrays.

A task's input is the numbers of pieces (`OfRun`), its output is pickled, so the JVM carries bytes
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

from maxq.checkers.judgement.piecewise.buckets import Buckets, OfTasks, merged, packed, whole
from maxq.checkers.judgement.piecewise.by_columns import MEMORY
from maxq.checkers.judgement.piecewise.dealt import Task
from maxq.checkers.judgement.piecewise.memory import Memory, give_back, memory_free
from maxq.checkers.judgement.piecewise.parts import Part
from maxq.checkers.judgement.piecewise.pieces import Dealer
from maxq.histories.op import HistoryError, without_cycles

# Bytes of an answer, in which pieces, or parts of one, say something to a partition, at most; and
# of all that a task holds until it sends them. A few rows, of a whole log, may say much.
ANSWER, HELD = 1 << 20, 1 << 25
OfTask = tuple[str, int, bytes, int]  # task, number of a piece, what it says, which part of that
SPOOLED = 1 << 23  # bytes of a run that a partition holds in memory; more of it are in a file
FOLDERS = "SPARK_LOCAL_DIRS"  # where Spark has its workers keep files


class OfRun(NamedTuple):
    """A part of a run's table, for one task."""

    run: str
    part: Part

    def here(self) -> Part:
        """The part, on a machine that has its files.

        Raises:
            HistoryError: it has not.
        """
        for file in self.part.files:
            if not file.path.exists():
                where = f"worker {platform.node()} of Spark has no {file.path}"
                raise HistoryError(f"{where}: put the table where every machine finds it")
        return self.part


Look = Callable[[Part], list[Any]]


def each(context: Any, parts: Sequence[tuple[OfRun, Look]], tasks: int) -> list[list[Any]]:
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
    give_back()  # a worker has many tasks, of which each leaves something behind
    of_run, look = pickle.loads(blob)
    try:
        with without_cycles():
            return pickle.dumps(look(of_run.here()))
    except HistoryError as error:
        return pickle.dumps(error)


class Dealt(NamedTuple):
    """The tasks of a run, and whether their keys are judged by rows."""

    tasks: Mapping[str, Task]
    by_rows: bool


def deal(
    context: Any, parts: Sequence[OfRun], runs: Mapping[str, Dealt], *, tasks: int, partitions: int
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
    give_back()
    of_run: OfRun = pickle.loads(blob)
    tasks, by_rows = pickle.loads(known.value[of_run.run])
    dealer = Dealer(tasks, {}, by_rows=by_rows)
    try:
        with without_cycles():
            yield from _answers(of_run.run, _said(of_run.here(), dealer, partitions))
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
