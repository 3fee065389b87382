"""The messages of all logs, kept on disk while a history is made, so that memory does not grow."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from maxq.workloads.generated.columns.rows import Ints

COLUMNS = 3  # key, offset, value
CHUNK_ROWS = 1 << 16


class Spool:
    """Of each broker set its messages in order of the log.

    Args:
        folder: where its files are, which have no names; None: where temporary files are.
        sets: how many there are.
    """

    def __init__(self, folder: Path | None, sets: int) -> None:
        self._files = [tempfile.TemporaryFile(dir=folder) for _ in range(sets)]  # noqa: SIM115

    def append(self, number: int, rows: Ints) -> None:
        """Add messages to a set's log: key, offset, value."""
        self._files[number].write(np.ascontiguousarray(rows, np.int64).tobytes())

    def rows(self, number: int, start: int, stop: int) -> Iterator[Ints]:
        """A set's messages from one to another, in pieces."""
        file, width = self._files[number], COLUMNS * 8
        file.flush()
        for at in range(start, stop, CHUNK_ROWS):
            file.seek(at * width)
            data = file.read((min(stop, at + CHUNK_ROWS) - at) * width)
            yield np.frombuffer(data, np.int64).reshape(-1, COLUMNS)
        file.seek(0, 2)

    def close(self) -> None:
        """The history is made."""
        for file in self._files:
            file.close()
