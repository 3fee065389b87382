"""How long a history of many small queues takes to be judged: ``python -m benchmarks.many_keys``.

Each queue has one to four messages and the poll that shows them: four to ten events. All queues are
sent to in turns, so that each has rows all over the table. `maxq check` judges it in a process of
its own. Exit code 1: it took longer than `BOUND_S`, or it is not valid.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.parquet import ROW_GROUP_ROWS, open_table
from maxq.histories.tables import EVENTS

BOUND_S = 60.0
MESSAGES = 4  # of a queue, at most
CLIENTS = 20
STEP_NS = 1_000


def joined(*texts: Any) -> Any:
    """Texts put together, row by row; arrays of numbers count as texts."""
    cells: list[Any] = [
        pa.scalar(t) if isinstance(t, str) else pa.array(t).cast(pa.string()) for t in texts
    ]
    return pc.binary_join_element_wise(*cells, "")


def turns(keys: int) -> Iterator[tuple[str, Any, Any]]:
    """What is done in each turn, by key: its name, and the values of invocations and answers."""
    key = np.arange(keys)
    for turn in range(MESSAGES):
        some = key[key % MESSAGES >= turn]
        value = some * MESSAGES + turn
        yield (
            "send",
            joined('[["send",', some, ",", value, "]]"),
            joined('[["send",', some, f",[{turn},", value, "]]]"),
        )
    for last in range(MESSAGES):
        some = key[key % MESSAGES == last]
        shown: list[Any] = []
        for turn in range(last + 1):
            shown += ["," if turn else "", f"[{turn},", some * MESSAGES + turn, "]"]
        asked = pa.array(np.full(len(some), '[["poll"]]'))
        yield "poll", asked, joined('[["poll",{"$map":[[', some, ",[", *shown, "]]]}]]")


def rows_of(f: str, asked: Any, told: Any, first: int) -> pa.Table:
    """The events of a turn, each answer right behind its question."""
    count = len(asked)
    index = np.arange(first, first + 2 * count)
    both = pa.concat_arrays([asked, told]).take(
        pa.array(np.arange(2 * count).reshape(2, -1).T.ravel())
    )
    columns: dict[str, Any] = {
        "run_id": pa.repeat("many-keys", 2 * count), "index": index, "time": index * STEP_NS,
        "type": np.tile(["invoke", "ok"], count), "process": index // 2 % CLIENTS,
        "process_name": pa.nulls(2 * count, pa.string()), "f": pa.repeat(f, 2 * count),
        "value": both, "error": pa.nulls(2 * count, pa.string()),
        "ext": pa.nulls(2 * count, pa.string()), "pair": index ^ 1,
    }  # fmt: skip
    return pa.table(columns).cast(EVENTS)


def write(path: Path, keys: int) -> int:
    """Write the history; how many events it has."""
    first = 0
    with open_table(path) as writer:
        for f, asked, told in turns(keys):
            table = rows_of(f, asked, told, first)
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            first += len(table)
    return first


@click.command()
@click.option("--keys", default=1_000_000, show_default=True)
@click.argument("more", nargs=-1)
def main(keys: int, more: tuple[str, ...]) -> None:
    """Measure once; MORE is for `maxq check`, such as -- --memory 2GB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "many.parquet")
        events = write(path, keys)
        words = ["-m", "maxq.harness.cli.main", "check", str(path), "--workload", "queue", *more]
        since = time.monotonic()
        process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
        said, _ = process.communicate()
        took_s = time.monotonic() - since
    used = os.times()
    print(f"{keys:,} queues, {events:,} events: {took_s:.1f} s, of its own "
          f"{used.children_user + used.children_system:.1f} s")  # fmt: skip
    print(said.splitlines()[0])
    sys.exit(took_s > BOUND_S or process.returncode != 0)


if __name__ == "__main__":
    main()
