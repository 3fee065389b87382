"""The events table of a run as one Parquet file, ``history.parquet``: for Spark and for archives.

zstd, row groups of 131,072 rows, statistics on: see docs/spec/history-format.md 9.4. Each
page has a checksum, without which a flipped bit may well be read as another number.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import EVENTS, SCHEMA_VERSION, events_table, ops_from_events

ROW_GROUP_ROWS = PIECE_ROWS = 131_072  # of older files a group has a million
ZSTD_LEVEL = 3
ROWS_FREE = 1_000_000  # that a file may hold; of more, each takes a byte at least
REPEATED: Any = ["run_id", "type", "process_name", "f", "error"]  # columns with few texts
# What a judge reads: `run_id` and `pair` follow from the file and its other columns.
JUDGED = [name for name in EVENTS.names if name not in ("run_id", "pair")]
TIMED = [name for name in JUDGED if name not in ("value", "ext")]  # what happened when
_CODED = pa.dictionary(pa.int32(), pa.string())


def encode_parquet(ops: Sequence[Op], *, run_id: str) -> bytes:
    """The bytes of the file. In memory, so that the store can save it whole (zstd: 10 B/row)."""
    out = pa.BufferOutputStream()
    with open_table(out) as writer:
        writer.write_table(events_table(ops, run_id=run_id), row_group_size=ROW_GROUP_ROWS)
    return out.getvalue().to_pybytes()


def open_table(out: Path | pa.NativeFile) -> pq.ParquetWriter:
    """A file to which events tables are written, each as row groups of its own. Columns whose texts
    are seldom equal have no dictionary, which would be filled and then thrown away."""
    return pq.ParquetWriter(
        out,
        EVENTS,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=REPEATED,
        write_page_checksum=True,
    )


def read_parquet(path: Path) -> tuple[Op, ...]:
    """The operations of one run.

    Raises:
        HistoryError: the file is damaged, of another version, or no events table.
    """
    with _read_of(path), _opened(path) as file:
        _check_schema(file.schema_arrow)
        batches = list(_batches(file))
        return ops_from_events(pa.Table.from_batches(batches, file.schema_arrow))


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of one run, some ten thousand at a time, every page compared with its checksum.

    Raises:
        HistoryError: as `read_parquet`.
    """
    with _read_of(path), _opened(path) as file:
        _check_schema(file.schema_arrow)
        for batch in _batches(file):
            yield batch.select(EVENTS.names).cast(EVENTS)


def pieces_of(path: Path) -> list[int]:
    """How many pieces each row group has, of those that `read_coded` gives.

    Raises:
        HistoryError: the file is damaged.
    """
    with _read_of(path):
        found: Any = pq.read_metadata(path)
        _check_claims(found, path.stat().st_size)
        groups = (found.row_group(n).num_rows for n in range(found.num_row_groups))
        return [-(-rows // PIECE_ROWS) for rows in groups]


def read_coded(
    path: Path, names: Sequence[str], pieces: Collection[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Some columns of one run, `PIECE_ROWS` at a time, those with few texts as dictionaries.

    Args:
        path: of the file.
        names: the columns that are wanted; pages of the others are compared as well.
        pieces: the numbers of those that are wanted, which are given in order; None: all.

    Raises:
        HistoryError: as `read_parquet`.
    """
    fields = [EVENTS.field(name) for name in names]
    wanted = pa.schema([f.with_type(_CODED) if f.name in REPEATED else f for f in fields])
    with _read_of(path), _opened(path, coded=REPEATED) as file:
        _check_schema(file.schema_arrow)
        first = 0
        for group, count in enumerate(pieces_of(path)):
            own = [n for n in range(count) if pieces is None or first + n in pieces]
            first += count
            if not own:
                continue
            whole = pa.Table.from_batches(list(_batches(file, [group])))
            table = whole.select(names).cast(wanted).unify_dictionaries().combine_chunks()
            cut = table.to_batches(max_chunksize=PIECE_ROWS)
            yield from (cut[n] for n in own)


def check_pages(path: Path) -> None:
    """Compare every page with its checksum, for those who read the file by other means.

    Raises:
        HistoryError: one differs; says between which rows.
    """
    with _read_of(path), _opened(path) as file:
        for _ in _batches(file):
            """Read, and dropped."""


def run_id_of(path: Path) -> str:
    """The run that a file is of, by its first row; empty if it has none.

    Reads no more than the footer and one cell, so that a damaged file is named before a job of many
    files begins.

    Raises:
        HistoryError: the file is damaged, of another version, or no events table.
    """
    with _read_of(path), pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        _check_schema(schema)
        first = next(iter(file.iter_batches(1, columns=["run_id"])), None)
        return "" if first is None or not len(first) else str(first["run_id"][0])


def rows_of(path: Path) -> int:
    """How many operations a file holds, from its footer.

    Raises:
        HistoryError: the file is damaged.
    """
    with _read_of(path):
        return int(pq.read_metadata(path).num_rows)


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


def _batches(
    file: pq.ParquetFile, groups: Collection[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups; None: of all."""
    first = 0
    for group in range(file.num_row_groups):
        rows, found = file.metadata.row_group(group).num_rows, 0
        if groups is not None and group not in groups:
            first += rows
            continue
        try:
            for batch in file.iter_batches(row_groups=[group]):
                found += len(batch)
                _check_codes(batch)
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
def _read_of(path: Path) -> Iterator[None]:
    """What Arrow raises of a damaged file, as ours. That may be an error of the system without its
    number, and text is decoded without a look at it."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise HistoryError(f"{path.name}: {error}") from None
    except (pa.ArrowException, UnicodeDecodeError, HistoryError) as error:
        raise HistoryError(f"{path.name}: {error}") from None


def _check_schema(schema: pa.Schema) -> None:
    version = (schema.metadata or {}).get(b"maxq.schema", b"").decode()
    if version != SCHEMA_VERSION:
        raise HistoryError(f"schema version {version!r}, expected {SCHEMA_VERSION!r}")
    if missing := set(EVENTS.names) - set(schema.names):
        raise HistoryError(f"not an events table: no column {sorted(missing)}")
    for field in schema:
        if field.name in EVENTS.names:
            _check_type(field)


def _check_type(field: "pa.Field[Any]") -> None:
    """Refuse a column that not all readers would read alike."""
    wanted, found = EVENTS.field(field.name), field.type
    if pa.types.is_dictionary(found):  # read so, not written so
        found = found.value_type
    if pa.types.is_string(wanted.type):
        if pa.types.is_binary(found) or pa.types.is_large_binary(found):
            raise HistoryError(f"not an events table: {field.name} is {found}, not text")
    elif not pa.types.is_integer(found) and not (pa.types.is_null(found) and wanted.nullable):
        raise HistoryError(f"not an events table: {field.name} is {found}, not a number")
