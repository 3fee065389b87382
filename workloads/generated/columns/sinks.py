"""Where rows go: a journal with its digests, or a table, each written piece by piece.

Memory does not grow with the history: rows are handed over in batches, and a table's row group is
closed when it has `GROUP_ROWS` rows or `GROUP_BYTES` of text.
"""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.digests import digests_of, encode_block
from maxq.histories.parquet import open_table
from maxq.histories.tables import EVENTS
from maxq.histories.text import TYPES, decode_value, encode_value
from maxq.workloads.generated.columns.rows import NAMES, Batch

GROUP_ROWS = 1 << 17
GROUP_BYTES = 32 << 20
BLOCK_ROWS = 4096  # of the journal, under one digest


class Chunk(NamedTuple):
    """Some rows as a file has them: how many, how much memory they take (bytes), and they."""

    rows: int
    size: int
    data: Any


class Form(Protocol):
    """How rows are written in a file; any process can ask it."""

    def chunks(self, batch: Batch, first: int) -> list[Chunk]:
        """Rows, the first of them with this index, as the file has them."""
        ...


class Sink(Protocol):
    """Takes rows in their form; `count` are those so far."""

    count: int

    def put(self, chunk: Chunk) -> None:
        """Take the next rows."""
        ...

    def close(self) -> None:
        """All rows are written."""
        ...


class Lines:
    """The form of a journal: its blocks."""

    def chunks(self, batch: Batch, first: int) -> list[Chunk]:
        """Rows, the first of them with this index, as blocks."""
        found = []
        for at in range(0, len(batch), BLOCK_ROWS):
            stop = min(at + BLOCK_ROWS, len(batch))
            data = "".join(_lines(batch, at, stop, first + at)).encode()
            found.append(Chunk(stop - at, len(data), data))
        return found


class Journal:
    """``history.jsonl`` and ``history.digests``."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._out = path.open("wb")
        self._digests = digests_of(path).open("wb")

    def put(self, chunk: Chunk) -> None:
        """Take the next block."""
        self.count += chunk.rows
        self._out.write(chunk.data)
        self._digests.write(encode_block(self.count, chunk.data))

    def close(self) -> None:
        """Write the end marker."""
        self._out.write(b'{"end":true,"count":%d}\n' % self.count)
        self._out.close()
        self._digests.close()


def _lines(b: Batch, start: int, stop: int, first: int) -> list[str]:
    processes = [str(p) if p >= 0 else f'"{NAMES[-1 - p]}"' for p in b.process[start:stop].tolist()]
    types = b.type[start:stop].tolist()
    times = b.time[start:stop].tolist()
    return [
        f'{{"index":{i},"time":{t},"type":"{TYPES[y]}","process":{p},"f":"{f}",'
        f'"value":{v or "null"}{_rest(x, e) if e else "," + x if x else ""}}}\n'
        for i, t, y, p, f, v, x, e in zip(
            range(first, first + stop - start),
            times,
            types,
            processes,
            b.f[start:stop],
            b.value[start:stop],
            b.ext[start:stop],
            b.error[start:stop],
            strict=True,
        )
    ]


def _rest(ext: str, error: str) -> str:
    """The fields behind the value of a row with an error, sorted."""
    if ext >= '"error"' or ext.count('":') > 1:
        fields = {**decode_value(f"{{{ext}}}"), "error": decode_value(error)}
        return "," + encode_value(dict(sorted(fields.items()))).decode()[1:-1]
    return f',{ext},"error":{error}' if ext else f',"error":{error}'


Texts = Any  # an array of texts: the stubs of what computes with them are stricter than it is


def _or_null(texts: Texts) -> Texts:
    """Texts, null where they are empty."""
    return pc.if_else(pc.equal(texts, pa.scalar("")), None, texts)


class Table:
    """``history.parquet``."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._out = open_table(path)
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def put(self, chunk: Chunk) -> None:
        """Take the next rows."""
        self.count += chunk.rows
        self._held.append(chunk.data)
        self._rows += chunk.rows
        self._bytes += chunk.size
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left, and the file's footer."""
        self._flush()
        self._out.close()

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held, EVENTS).combine_chunks()
            self._out.write_table(table, row_group_size=max(self._rows, 1))
            self._held.clear()
            self._rows = self._bytes = 0


class Records(NamedTuple):
    """The form of a table: record batches.

    `run_id` is what its rows call the run; `total` how many rows it will have, which its first row
    must say of the last one.
    """

    run_id: str
    total: int

    def chunks(self, batch: Batch, first: int) -> list[Chunk]:
        """Rows, the first of them with this index, as a record batch."""
        if not len(batch):
            return []
        record = self._record(batch, first)
        return [Chunk(len(batch), record.nbytes, record)]

    def _record(self, b: Batch, first: int) -> pa.RecordBatch:
        n = len(b)
        client = b.process >= 0
        codes = pa.array(np.where(client, 0, -1 - b.process), pa.int32(), mask=client)
        names: Any = pa.DictionaryArray.from_arrays(codes, list(NAMES)).cast(pa.string())
        pair = np.where(b.pair >= 0, b.pair + first, -1)
        ends = np.flatnonzero(b.process == -1)  # the run's own two rows: the first and the last
        pair[ends] = [self.total - 1 if first + i == 0 else 0 for i in ends.tolist()]
        columns: list[Any] = [
            pa.repeat(self.run_id, n),
            pa.array(np.arange(first, first + n)),
            pa.array(b.time),
            pa.DictionaryArray.from_arrays(b.type, list(TYPES)).cast(pa.string()),
            pa.array(b.process, mask=~client),
            names,
            pa.array(b.f, pa.string()),
            _or_null(pa.array(b.value, pa.string())),
            _or_null(pa.array(b.error, pa.string())),
            pa.array([f"{{{ext}}}" if ext else None for ext in b.ext], pa.string()),
            pa.array(pair),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
