"""The events table of a run in Parquet, one file or a folder of parts: for Spark and for archives.

Our own files: zstd, row groups of 131,072 rows, statistics on: see docs/spec/history-format.md 9.4.
Each page has a checksum, without which a flipped bit may well be read as another number. Others
write tables as they like: in parts, in any order of names and rows, with other text types, and
without our version. What they wrote is cast to ours as it is read.
"""

import filecmp
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import EVENTS, SCHEMA_VERSION, events_tables

ROW_GROUP_ROWS = 131_072  # of older files a group has a million
PIECE_ROWS = 32_768  # that are read together: each may be of a hundred messages
ZSTD_LEVEL = 3
SHARED = "maxq.dataset"  # who reads a file with this by itself might mix the runs that share it
ROWS_FREE = 1_000_000  # that a file may hold; of more, each takes a byte at least
EXACT = 1 << 53  # from here on a float may be another number's
REPEATED: Any = ["run_id", "type", "process_name", "f", "error"]  # columns with few texts
# What a judge reads: `run_id` and `pair` follow from the file and its other columns.
JUDGED = [name for name in EVENTS.names if name not in ("run_id", "pair")]
TIMED = [name for name in JUDGED if name not in ("value", "ext")]  # what happened when
_CODED = pa.dictionary(pa.int32(), pa.string())


class File(NamedTuple):
    """A file of a table: the rows of each of its row groups, and of its first row the index (-1:
    there is no row) and the run. Of a file of several runs only what one run has in it: its row
    groups `begin` with this one."""

    path: Path
    groups: tuple[int, ...]
    first: int
    run: str
    begin: int = 0

    @property
    def rows(self) -> int:
        """How many it has."""
        return sum(self.groups)

    @property
    def numbers(self) -> range:
        """Of its row groups, in the file."""
        return range(self.begin, self.begin + len(self.groups))


Files = tuple[File, ...]
Damage = list[str] | None  # takes what is damaged, which is then left out; None: it is refused


def encode_parquet(ops: Sequence[Op], *, run_id: str) -> bytes:
    """The bytes of the file. In memory, so that the store can save it whole (zstd: 10 B/row); of
    its rows one row group is."""
    out = pa.BufferOutputStream()
    with open_table(out) as writer:
        for table in events_tables(ops, run_id=run_id, rows=ROW_GROUP_ROWS):
            writer.write_table(table)
    return out.getvalue().to_pybytes()


def open_table(out: Path | pa.NativeFile, dataset: str = "") -> pq.ParquetWriter:
    """A file to which events tables are written, each as row groups of its own; which `dataset` it
    is of, if several runs share it. Columns whose texts are seldom equal have no dictionary, which
    would be filled and then thrown away."""
    own: Any = {**(EVENTS.metadata or {}), **({SHARED: dataset} if dataset else {})}
    return pq.ParquetWriter(
        out,
        EVENTS.with_metadata(own),
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=REPEATED,
        write_page_checksum=True,
    )


def table_files(path: Path) -> list[Path]:
    """The files of an events table: the file itself, or the parts in a folder, by name. Spark and
    others put hidden files, and some that begin with _, beside them."""
    if not path.is_dir():
        return [path]
    return sorted(p for p in path.glob("[!._]*.parquet") if p.is_file())


def files_of(path: Path, damage: Damage = None) -> Files:
    """The files of a table, in order of the indices of their first rows.

    Args:
        path: a file, or a folder of parts.
        damage: takes which files cannot be read, or are copies of others.

    Raises:
        HistoryError: a file is damaged, of another version, or no events table; two hold the same
            rows, or rows of different runs.
    """
    found: list[File] = []
    for each in table_files(path):
        with left_out(damage):
            found.append(_file_of(each))
    found.sort(key=lambda file: (file.first, file.path.name))
    kept: list[File] = []
    for other in found:
        one = next((file for file in reversed(kept) if file.rows), None)
        if one is None or not other.rows or _goes_on(one, other, damage):
            kept.append(other)
    return tuple(kept)


def _goes_on(one: File, other: File, damage: Damage) -> bool:
    """Whether the second file has other rows of the same run.

    Raises:
        HistoryError: it has not; of a mere copy only if nobody takes damage.
    """
    if (one.first, one.rows) == (other.first, other.rows):
        if damage is None or not filecmp.cmp(one.path, other.path, shallow=False):
            raise HistoryError(
                f"{one.path.name} and {other.path.name} both hold {one.rows:,} rows from index "
                f"{one.first} on: if one is a copy, take it away"
            )
        with left_out(damage):
            raise HistoryError(f"{other.path.name} is a copy of {one.path.name}")
        return False
    if one.run != other.run:
        raise HistoryError(
            f"{one.path.name} is of run {one.run!r}, {other.path.name} of {other.run!r}: give "
            "the parts of one run"
        )
    return True


def read_batches(
    table: Path | Files, names: Sequence[str] = EVENTS.names, damage: Damage = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one run as they lie, some ten thousand at a time, every page that is read
    compared with its checksum.

    Args:
        table: of what.
        names: the columns that are wanted.
        damage: takes why the rest of a file is left out.

    Raises:
        HistoryError: the table is damaged, of another version, or none.
    """
    wanted = nullable(names)
    for file in _files(table):
        with left_out(damage), read_of(file.path), _opened(file.path) as opened:
            for batch in _batches(opened, file.numbers, [*names]):
                yield _cast(batch, wanted)


def pieces_of(table: Path | Files) -> list[int]:
    """How many pieces each row group has, of those that `read_coded` gives.

    Raises:
        HistoryError: a file is damaged.
    """
    return [-(-rows // PIECE_ROWS) for file in _files(table) for rows in file.groups]


def read_coded(
    table: Path | Files, names: Sequence[str], pieces: Collection[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Some columns of one run, `PIECE_ROWS` at a time, those with few texts as dictionaries.

    Args:
        table: of what; its rows lie in order.
        names: the columns that are wanted; pages of the others are compared as well.
        pieces: the numbers of those that are wanted, which are given in order; None: all.

    Raises:
        HistoryError: as `read_batches`.
    """
    first = 0
    for file in _files(table):
        count = sum(pieces_of((file,)))
        own = [n for n in range(count) if pieces is None or first + n in pieces]
        first += count
        if own:
            yield from _coded(file, names, own)


def _coded(file: File, names: Sequence[str], pieces: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Some pieces of one file."""
    fields = nullable(names)
    wanted = pa.schema([f.with_type(_CODED) if f.name in REPEATED else f for f in fields])
    first = 0
    with read_of(file.path), _opened(file.path, coded=REPEATED) as opened:
        for group, count in zip(file.numbers, pieces_of((file,)), strict=True):
            own = [n for n in range(count) if first + n in pieces]
            first += count
            if own:
                cast = (_cast(batch, wanted) for batch in _batches(opened, [group]))
                yield from map(_cut(cast).__getitem__, own)  # nothing is kept of one that was read


def _cut(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The pieces of a row group."""
    table = pa.Table.from_batches([*batches]).unify_dictionaries().combine_chunks()
    return table.to_batches(max_chunksize=PIECE_ROWS)


def run_id_of(table: Path | Files) -> str:
    """The run that a table is of, by its first row; empty if it has none.

    Raises:
        HistoryError: a file is damaged, of another version, or no events table.
    """
    return next((file.run for file in _files(table) if file.rows), "")


def rows_of(table: Path | Files) -> int:
    """How many operations a table holds, by the footers of its files.

    Raises:
        HistoryError: a file is damaged.
    """
    return sum(file.rows for file in _files(table))


def _files(table: Path | Files) -> Files:
    return files_of(table) if isinstance(table, Path) else table


def _file_of(path: Path) -> File:
    """Reads no more than the footer and two cells of the first row."""
    with read_of(path), _opened(path) as file:
        groups = tuple(file.metadata.row_group(n).num_rows for n in range(file.num_row_groups))
        _check_schema(file.schema_arrow)
        for batch in _batches(file, range(len(groups)), ["run_id", "index"]):
            index, run = batch["index"][0].as_py(), batch["run_id"][0].as_py()
            return File(path, groups, -1 if index is None else index, run or "")
        return File(path, groups, -1, "")


def _opened(path: Path, coded: Sequence[str] = ()) -> pq.ParquetFile:
    found: Any = pq.read_metadata(path)
    _check_claims(found, path.stat().st_size)
    there = [
        name for name in coded if name in found.schema.names
    ]  # of others pyarrow knows no word
    return pq.ParquetFile(
        path, metadata=found, page_checksum_verification=True, read_dictionary=there
    )


def _check_claims(found: Any, size: int) -> None:
    """Refuse what no file of that size holds, before memory is taken for it. No column is looked
    at: of a damaged one pyarrow ends the process."""
    for number in range(found.num_row_groups):
        rows = found.row_group(number).num_rows
        if not 0 <= rows <= ROWS_FREE + size:
            raise HistoryError(f"row group {number} claims {rows} rows in {size} bytes")


def nullable(names: Sequence[str]) -> pa.Schema:
    """Some columns; who reads their rows says what may not be missing."""
    return pa.schema([pa.field(name, EVENTS.field(name).type) for name in names])


def _cast(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The same with our types. A column of numbers that had a gap may come as floats."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        floats = pa.types.is_floating(column.type)
        if floats and (pc.max(pc.abs(column)).as_py() or 0) >= EXACT:
            raise HistoryError(f"{name} has numbers that {column.type} cannot tell apart")
    return batch.select(wanted.names).cast(wanted)


def _batches(
    file: pq.ParquetFile, groups: Collection[int], names: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Some columns of the rows of some row groups; None: all columns."""
    first = 0
    for group in range(file.num_row_groups):
        rows, found = file.metadata.row_group(group).num_rows, 0
        if group not in groups:
            first += rows
            continue
        try:
            for batch in file.iter_batches(row_groups=[group], columns=names):
                found += len(batch)
                _check_codes(batch)
                if len(batch):
                    yield batch
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise HistoryError(f"rows {first} to {first + rows - 1}: {error}") from None
        if found != rows:  # no checksum covers the head of a page
            raise HistoryError(f"rows {first} to {first + rows - 1}: {found} of {rows} are there")
        first += rows


def _check_codes(batch: pa.RecordBatch) -> None:
    """Refuse a code without a text, in Arrow's words where it reads the texts themselves; no
    checksum covers how many texts there are."""
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                raise pa.ArrowInvalid("Index not in dictionary bounds") from None


@contextmanager
def read_of(path: Path) -> Iterator[None]:
    """What Arrow raises of a damaged file, as ours. That may be an error of the system without its
    number, and text is decoded without a look at it."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise HistoryError(f"{path.name}: {error}".rstrip(".")) from None
    except (pa.ArrowException, UnicodeDecodeError, HistoryError) as error:
        raise HistoryError(f"{path.name}: {error}".rstrip(".")) from None


@contextmanager
def left_out(damage: Damage) -> Iterator[None]:
    """What cannot be read is left out, if somebody wants to know it; else it is refused."""
    try:
        yield
    except HistoryError as error:
        if damage is None:
            raise
        if str(error) not in damage:  # each reading finds it again
            damage.append(str(error))


def _check_schema(schema: pa.Schema) -> None:
    """Refuse what is no events table of today's version; who wrote it again may not say which."""
    version = (schema.metadata or {}).get(b"maxq.schema", SCHEMA_VERSION.encode()).decode()
    if SHARED.encode() in (schema.metadata or {}):
        raise HistoryError("it may hold several runs: give the dataset's folder to `maxq check`")
    if version != SCHEMA_VERSION:
        raise HistoryError(f"schema version {version!r}, expected {SCHEMA_VERSION!r}")
    if missing := set(EVENTS.names) - set(schema.names):
        raise HistoryError(f"not an events table: no column {sorted(missing)}")
    for name in EVENTS.names:
        if schema.get_field_index(name) < 0:
            raise HistoryError(f"not an events table: {name} is there twice")
        _check_type(schema.field(name))


def _check_type(field: "pa.Field[Any]") -> None:
    """Refuse a column that not all readers would read alike."""
    wanted, found = EVENTS.field(field.name), field.type
    if pa.types.is_dictionary(found):  # read so, not written so
        found = found.value_type
    if pa.types.is_string(wanted.type):
        if pa.types.is_binary(found) or pa.types.is_large_binary(found):
            raise HistoryError(f"not an events table: {field.name} is {found}, not text")
        return
    gaps = wanted.nullable and (pa.types.is_null(found) or pa.types.is_floating(found))
    if not pa.types.is_integer(found) and not gaps:
        raise HistoryError(f"not an events table: {field.name} is {found}, not a number")
