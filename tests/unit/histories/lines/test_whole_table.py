"""How the rows of a table lie is found out batch by batch, and no batch is kept."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from maxq.histories.lines.whole_table import SAMPLED, order_of
from maxq.histories.parquet import files_of
from maxq.histories.tables import EVENTS

ROWS = 1_000_000


def test_looking_at_the_order_of_a_table_keeps_a_sample_and_no_more(tmp_path: Path) -> None:
    others = {
        field.name: pa.array([""] * ROWS if pa.types.is_string(field.type) else np.zeros(ROWS))
        for field in EVENTS
    }
    table = pa.table({**others, "index": np.arange(ROWS)}).cast(EVENTS)
    path = tmp_path / "history.parquet"
    pq.write_table(table, path, row_group_size=100_000)
    del table, others
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        order = order_of(files_of(path))
    finally:
        pa.set_memory_pool(usual)

    assert order.ascending
    assert abs(len(order.sample) - ROWS // SAMPLED) < 100
    assert (pool.max_memory() or 0) < 4 * ROWS
