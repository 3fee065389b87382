"""A history on its way: record batches in a temporary file, to be read as often as they are wanted.

Batches are as they were given: Arrow's own form, which takes less time to be read than Parquet.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.lines.batches import ROWS


class Spool:
    """Batches of rows (`maxq.histories.lines.batches.ROWS`) in a file; `count` is how many rows
    there are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin()

    def _begin(self) -> None:
        self._file = pa.OSFile(str(self._path), "wb")
        self._writer: Any = pa.ipc.new_file(self._file, ROWS)
        self.count = 0

    def clear(self) -> None:
        """Forget what there is."""
        self.end()
        self._begin()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next rows."""
        self._writer.write_batch(batch)
        self.count += len(batch)

    def end(self) -> None:
        """There are no more."""
        self._writer.close()
        self._file.close()

    def cut(self, count: int) -> None:
        """Keep so many rows, of those that are there."""
        self.count = min(count, self.count)

    def batches(self, pieces: Collection[int] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, from the first one on; or those of the batches with these numbers, in order."""
        with pa.OSFile(str(self._path), "rb") as file, pa.ipc.open_file(file) as reader:
            first = 0
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                if first < self.count and (pieces is None or number in pieces):
                    yield batch.slice(0, self.count - first)
                first += len(batch)


@contextmanager
def spool() -> Iterator[Spool]:
    """An empty one, for the length of a block."""
    with TemporaryDirectory(prefix="maxq-") as folder:
        yield Spool(Path(folder, "history.arrow"))


def concurrency_of(batches: Iterator[pa.RecordBatch]) -> int:
    """How many clients there were at a time: the processes before the first one was retired."""
    highest = -1
    for batch in batches:
        clients = batch.filter(batch["process"].is_valid())
        retired = np.flatnonzero(pc.equal(clients["type"], pa.scalar("info")).to_numpy(False))
        seen = clients["process"][: int(retired[0]) + 1] if len(retired) else clients["process"]
        highest = max(highest, pc.max(seen).as_py() if len(seen) else -1)
        if len(retired):
            break
    return highest + 1
