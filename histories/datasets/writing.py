"""Writes a dataset: runs one behind the other into parts, the manifest last.

What is held at a time is one row group. A part gets its name once it is whole and on the disk.
Whatever goes wrong, what was written is taken away; of a process that was killed stays a folder
without a manifest, which no reader takes for whole. The same command again starts over.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from maxq.histories.datasets.manifest import (
    MANIFEST,
    UNFINISHED,
    Manifest,
    Part,
    RunRows,
    Source,
    Stretch,
    id_of,
    part_of,
    part_path,
    write_manifest,
)
from maxq.histories.op import HistoryError
from maxq.histories.parquet import ROW_GROUP_ROWS, open_table
from maxq.histories.store import beside, put_in_place, write_whole
from maxq.histories.tables import EVENTS
from maxq.histories.text import NOT_JSON

GROUP_BYTES = 32 << 20  # of a row group, before it is packed; of a generated history it is as many
GROUPS_MAX = 32  # of a part: what one damage can take


class Writer:
    """Puts runs into the parts of a folder, which is there and empty.

    Args:
        folder: of the dataset.
        dataset: its id.
    """

    def __init__(self, folder: Path, dataset: str) -> None:
        self.parts: list[Part] = []
        self._folder, self._dataset = folder, dataset
        self._out: pq.ParquetWriter | None = None
        self._groups = 0  # of the part that is open

    def run(self, run_id: str, batches: Iterator[pa.RecordBatch]) -> tuple[Stretch, ...]:
        """Write a run, and say where it is.

        Args:
            run_id: what its rows are to call it.
            batches: its rows in order, with the columns of an events table.
        """
        found: list[Stretch] = []
        for group in _groups(batches):
            first = group["index"][0].as_py()
            part, at = self._write(_called(run_id, group))
            if found and found[-1].part == part:
                found[-1] = msgspec.structs.replace(
                    found[-1], rows=(*found[-1].rows, group.num_rows)
                )
            else:
                found.append(Stretch(part, at, first, (group.num_rows,)))
        return tuple(found)

    def _write(self, group: pa.Table) -> tuple[int, int]:
        """Write a row group; in which part, and the how manieth there."""
        if self._out is None:
            self._out = open_table(self._temporary(), self._dataset)
        number, at = len(self.parts), self._groups
        self._out.write_table(group, row_group_size=group.num_rows)
        self._groups += 1
        if self._groups == GROUPS_MAX:
            self.end_part()
        return number, at

    def end_part(self) -> None:
        """Give the part that is open its name, if one is."""
        if self._out is None:
            return
        out, self._out = self._out, None
        out.close()
        part = part_of(self._temporary())
        put_in_place(self._temporary(), part_path(self._folder, len(self.parts)))
        self.parts.append(part)
        self._groups = 0

    def give_up(self) -> None:
        """Close what is open, whatever comes of it."""
        if self._out is not None:
            with suppress(OSError, pa.ArrowException):
                self._out.close()

    def _temporary(self) -> Path:
        return beside(part_path(self._folder, len(self.parts)))


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows, so many at a time as a row group has."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        fit = max(1, len(batch) * GROUP_BYTES // max(batch.nbytes, 1))
        at = 0
        while at < len(batch):
            if rows >= ROW_GROUP_ROWS or size >= GROUP_BYTES:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
            held.append(batch.slice(at, min(fit, ROW_GROUP_ROWS - rows)))
            at += len(held[-1])
            rows += len(held[-1])
            size += held[-1].nbytes
    if held:
        yield pa.Table.from_batches(held)


def _called(run_id: str, rows: pa.Table) -> pa.Table:
    """Rows of a run of this id, with our types."""
    columns = [
        pa.repeat(run_id, len(rows)) if name == "run_id" else rows[name] for name in EVENTS.names
    ]
    return pa.table(dict(zip(EVENTS.names, columns, strict=True))).cast(EVENTS)


@contextmanager
def dataset_in(folder: Path, sources: tuple[Source, ...]) -> Iterator[tuple[Writer, list[RunRows]]]:
    """A dataset of some runs, for the length of a block, which writes each and puts what is to be
    known of it into the list; whole at the block's end.

    Raises:
        HistoryError: the folder is there, and no unfinished dataset of the same runs.
    """
    dataset = id_of(sources)
    _begin(folder, sources)
    writer, runs = Writer(folder, dataset), list[RunRows]()
    try:
        yield writer, runs
        writer.end_part()
        manifest = Manifest(id=dataset, runs=tuple(runs), parts=tuple(writer.parts))
        write_manifest(folder, manifest)
    except BaseException:
        writer.give_up()
        with suppress(OSError):
            _clear(folder)
            (folder / UNFINISHED).unlink()
            folder.rmdir()
        raise
    (folder / UNFINISHED).unlink()


def is_unfinished(folder: Path) -> bool:
    """Whether a dataset was begun there, and not ended."""
    return (folder / UNFINISHED).exists() and not (folder / MANIFEST).exists()


def _begin(folder: Path, sources: tuple[Source, ...]) -> None:
    """Make the folder, or an unfinished one empty.

    Raises:
        HistoryError: it is there, and another one.
    """
    marker, cure = folder / UNFINISHED, "give another --out, or take it away"
    if is_unfinished(folder):
        if _planned(marker) != sources:
            raise HistoryError(f"{folder} was begun with other runs: {cure}")
    elif folder.exists() and any(not p.name.endswith(".tmp") for p in folder.iterdir()):
        raise HistoryError(f"{folder} is there already: {cure}")
    folder.mkdir(parents=True, exist_ok=True)
    _clear(folder)
    write_whole(marker, msgspec.json.encode(sources))


def _planned(marker: Path) -> tuple[Source, ...] | None:
    try:
        return msgspec.json.decode(marker.read_bytes(), type=tuple[Source, ...])
    except NOT_JSON:
        return None


def _clear(folder: Path) -> None:
    """Take away what an unfinished dataset has, the manifest first: without it nothing counts."""
    for path in [folder / MANIFEST, *folder.glob("part-*.parquet"), *folder.glob(".*.tmp")]:
        path.unlink(missing_ok=True)
