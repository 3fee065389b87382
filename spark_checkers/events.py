"""The events of runs as Spark sees them: from Parquet, each completion joined with its invocation.

What does not grow with the load of a run (the nemesis, observers) is collected; of a `replica-log`
only its set and one message of each queue, which is all that a check may ask of it before its rows
are dealt out; of assignments process and index.
"""

import pickle
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from maxq.checkers.judgement.dealt import LARGE, Small, slim
from maxq.histories.aliases import OPERATIONS
from maxq.histories.history import Reassigned
from maxq.histories.observed import ASSIGNMENTS
from maxq.histories.op import HistoryError, Op
from maxq.histories.parquet import run_id_of
from maxq.histories.tables import op_of_row
from maxq.spark_checkers.deal import Batches, op_of

OPS = "run string, op binary"


def read_events(session: Any, paths: Sequence[Path]) -> tuple[Any, tuple[str, ...]]:
    """The events of some files, and the runs that they are of.

    Raises:
        HistoryError: a file is damaged or no events table, or two are of one run.
    """
    runs = tuple(run_id_of(path) for path in paths)
    if len(set(runs)) < len(runs):
        raise HistoryError(f"two files are of one run: {sorted(runs)}")
    events = session.read.parquet(*(str(path.resolve()) for path in paths))
    return events.replace(dict(OPERATIONS), subset=["f"]), runs


def joined(events: Any) -> Any:
    """Events, and of each completion the time and value of its invocation."""
    from pyspark.sql import functions as F  # noqa: N812 (Spark's own word)

    invoked = events.where((F.col("type") == "invoke") & F.col("process").isNotNull())
    begun = invoked.select(
        F.col("run_id").alias("begun_run"),
        F.col("index").alias("begun_index"),
        F.col("time").alias("begun_time"),
        F.col("value").alias("begun_value"),
    )
    its_own = (
        (F.col("run_id") == F.col("begun_run"))
        & (F.col("pair") == F.col("begun_index"))
        & (F.col("type") != "invoke")
        & F.col("process").isNotNull()
    )
    return events.join(begun, its_own, "left").drop("begun_run", "begun_index")


def collect_small(events: Any) -> dict[str, Small]:
    """The small part of every run.

    Raises:
        HistoryError: a row is no operation.
    """
    from pyspark.sql import functions as F  # noqa: N812

    big = F.col("process").isNotNull() & F.col("f").isin(*sorted(LARGE))
    found: dict[str, Small] = defaultdict(
        lambda: Small([], Counter(), None, Reassigned(array("q"), array("q")))
    )
    clients = events.where(F.col("process").isNotNull())
    for row in clients.groupBy("run_id", "f", "type").count().collect():
        found[row["run_id"]].totals[row["f"], row["type"]] = row["count"]
    for row in events.where(~big).mapInArrow(_slimmed, OPS).collect():
        found[row["run"]].ops.append(op_of(bytes(row["op"])))
    done = F.col("f").isin(*ASSIGNMENTS) & F.col("type").isin("ok", "info")
    assigned = clients.where(done).select("run_id", "process", "index")
    for row in assigned.sort("run_id", "process", "index").toArrow().to_pylist():
        known = found[row["run_id"]].reassigned
        known.process.append(row["process"])
        known.at.append(row["index"])
    return dict(found)


def collect_ops(events: Any, wanted: Mapping[str, Collection[int]]) -> dict[str, list[Op]]:
    """Some operations of some runs, by index."""
    from pyspark.sql import functions as F  # noqa: N812

    indices = sorted({index for of_run in wanted.values() for index in of_run})
    found: dict[str, list[Op]] = {run: [] for run in wanted}
    if not indices:
        return found
    rows = events.where(F.col("index").isin(indices)).mapInArrow(_whole, OPS)
    for row in rows.collect():
        op = op_of(bytes(row["op"]))
        if op.index in wanted.get(row["run"], ()):
            found[row["run"]].append(op)
    return found


def _slimmed(batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _ops([(row["run_id"], slim(op_of_row(row))) for row in batch.to_pylist()])


def _whole(batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _ops([(row["run_id"], op_of_row(row)) for row in batch.to_pylist()])


def _ops(found: Sequence[tuple[str, Op]]) -> pa.RecordBatch:
    runs = pa.array([run for run, _ in found], pa.string())
    blobs = pa.array([pickle.dumps(op) for _, op in found], pa.binary())
    return pa.RecordBatch.from_arrays([runs, blobs], names=["run", "op"])
