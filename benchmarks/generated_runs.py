"""Folders of runs that were made up, in any format, for benchmarks of checkers."""

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.jepsen import encode_edn
from maxq.histories.jsonl import JournalWriter
from maxq.histories.observed import REPLICA_LOG
from maxq.histories.parquet import open_table, read_batches, rows_of
from maxq.histories.store import CONFIG, JOURNAL, PARQUET
from maxq.histories.tables import EVENTS, Values

WORKLOADS = ("queue", "durability", "replicas", "lock", "offsets", "epochs", "registration",
             "queue-1", "queue-32")  # fmt: skip
FORMATS = ("parquet", "jsonl", "edn")
EDN = "history.edn"
LARGE = 10_000_000
CONCURRENCY = 16


def generated(workload: str, events: int, path: Path) -> int:
    """Write a run's folder with a table of about so many events; returns how many there are.

    `durability` is the queue without the logs of its replicas, `queue-N` has so many broker
    sets, of two queues each.
    """
    of, _, sets = workload.partition("-")
    of = "queue" if workload == "durability" else of
    words = ("--ops", str(events // 2), "--concurrency", str(CONCURRENCY), "--seed", "1")
    command = [sys.executable, "-m", "maxq.harness.cli.main", "generate-history", *words]
    more = ("--broker-sets", sets) if sets else ()
    subprocess.run(
        [*command, *more, "--workload", of, "--out", str(path)], check=True, capture_output=True
    )
    if workload == "durability":
        _without_logs(path)
    return rows_of(path / PARQUET)


def copied(run: Path, form: str, path: Path) -> None:
    """Write the run again, its history as a journal or in EDN."""
    path.mkdir()
    shutil.copy(run / CONFIG, path / CONFIG)
    values = Values()
    pieces = (values.ops_of(batch) for batch in read_batches(run / PARQUET))
    if form == "edn":
        with (path / EDN).open("wb") as out:
            out.writelines(map(encode_edn, pieces))
        return
    with JournalWriter(path / JOURNAL) as journal:
        for piece in pieces:
            for op in piece:
                journal.append(op)


def _without_logs(path: Path) -> None:
    """Leave out what replicas hold, and count anew."""
    kept, count = path / "kept", 0
    with open_table(kept) as writer:
        for batch in read_batches(path / PARQUET):
            left = batch.filter(pc.not_equal(batch["f"], pa.scalar(REPLICA_LOG)))
            index = pa.array(range(count, count + len(left)), pa.int64())
            at = left.schema.get_field_index("index")
            counted = left.set_column(at, left.schema.field(at), index)
            writer.write_batch(counted.cast(EVENTS))
            count += len(left)
    kept.rename(path / PARQUET)
