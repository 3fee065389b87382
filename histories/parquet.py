"""The events table of a run as one Parquet file, ``history.parquet``: for Spark and for archives.

zstd, row groups of about a million rows, statistics on: see spark-design 3.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from histories.op import HistoryError, Op
from histories.schema import SCHEMA_VERSION
from histories.tables import events_table, ops_from_events

ROW_GROUP_ROWS = 1_000_000
ZSTD_LEVEL = 3


def encode_parquet(ops: Sequence[Op], *, run_id: str) -> bytes:
    """The bytes of the file. In memory, so that the store can save it whole (zstd: 10 B/row)."""
    out = pa.BufferOutputStream()
    pq.write_table(
        events_table(ops, run_id=run_id),
        out,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        row_group_size=ROW_GROUP_ROWS,
    )
    return out.getvalue().to_pybytes()


def read_parquet(path: Path) -> tuple[Op, ...]:
    """The operations of one run.

    Raises:
        HistoryError: the file is damaged, of another version, or no events table.
    """
    try:
        table = pq.read_table(path)
    except pa.ArrowException as e:
        raise HistoryError(f"{path.name}: {e}") from None
    version = (table.schema.metadata or {}).get(b"maxq.schema", b"").decode()
    if version != SCHEMA_VERSION:
        raise HistoryError(f"{path.name}: schema version {version!r}, expected {SCHEMA_VERSION!r}")
    return ops_from_events(table)
