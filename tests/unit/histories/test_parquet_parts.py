"""Events tables as others write them: in parts, in another order, without our version."""

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from history_recorder import Recorder

from maxq.histories.lines.spool import spool
from maxq.histories.lines.whole_table import order_of, read_parquet, read_table, spool_table
from maxq.histories.op import HistoryError, Op
from maxq.histories.parquet import (
    JUDGED,
    encode_parquet,
    files_of,
    pieces_of,
    read_coded,
    rows_of,
    run_id_of,
)
from maxq.histories.store import is_table, open_run, table_of
from maxq.histories.tables import EVENTS, Values, events_table

GROUP = 7  # rows


def sends(messages: int) -> tuple[Op, ...]:
    recorder = Recorder()
    recorder.fault("kill", **{"b0-0": True})
    for offset in range(messages):
        recorder.send(0, 10 + offset, offset, broker="x:1")
        recorder.poll(1, (offset, 10 + offset))
    return tuple(recorder.ops)


OPS = sends(10)
TABLE = events_table(OPS, run_id="queue/1")
CUTS = (0, 13, 14, 31, len(OPS))  # in the middle of operations


def in_parts(folder: Path, table: pa.Table = TABLE, cuts: tuple[int, ...] = CUTS) -> Path:
    """A folder of parts, the last of which has the first name; with what others put beside them."""
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    (folder / "._part-0.parquet").write_bytes(b"?")
    (folder / "_metadata.parquet").write_bytes(b"?")
    for number, (begin, end) in enumerate(pairwise(cuts)):
        path = folder / f"part-{len(cuts) - number:05d}-x.c000.snappy.parquet"
        rows = table.slice(begin, end - begin)
        pq.write_table(rows, path, compression="snappy", row_group_size=GROUP)
    return folder


def by_pieces(path: Path) -> list[Op]:
    values = Values()
    return [op for batch in read_coded(path, JUDGED) for op in values.ops_of(batch)]


def spooled(path: Path) -> list[Op]:
    values = Values()
    with spool() as rows:
        report = spool_table(path, rows)
        ops = [op for batch in rows.batches() for op in values.ops_of(batch)]
    assert report.complete
    assert report.count == len(ops)
    return ops


def test_a_folder_of_parts_is_one_table(tmp_path: Path) -> None:
    path = in_parts(tmp_path / "history")

    assert is_table(path)
    assert read_parquet(path) == tuple(by_pieces(path)) == tuple(spooled(path)) == OPS
    assert order_of(files_of(path)).ascending
    assert (rows_of(path), run_id_of(path)) == (len(OPS), "queue/1")
    assert [file.first for file in files_of(path)] == [0, 13, 14, 31]


def test_pieces_are_numbered_over_parts(tmp_path: Path) -> None:
    path = in_parts(tmp_path / "history")
    whole = [len(batch) for batch in read_coded(path, ["index"])]

    assert whole == [7, 6, 1, 7, 7, 3, 7, len(OPS) - 38]
    assert pieces_of(path) == [1] * len(whole)
    chosen = read_coded(path, ["index"], {1, 2, 6})
    assert [batch["index"][0].as_py() for batch in chosen] == [7, 13, 31]


def test_a_run_may_have_its_table_in_parts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert table_of(tmp_path) is None
    parts = in_parts(tmp_path / "history")

    assert (table_of(tmp_path), is_table(tmp_path)) == (parts, False)
    assert open_run(tmp_path).history.ops == OPS
    (tmp_path / "history.parquet").write_bytes(encode_parquet(OPS[:2], run_id="queue/1"))
    assert open_run(tmp_path).history.ops == OPS[:2]


def test_rows_in_any_order_are_sorted(tmp_path: Path) -> None:
    shuffled = TABLE.sort_by([("f", "ascending"), ("time", "descending")])
    one = tmp_path / "one.parquet"
    pq.write_table(shuffled, one)
    for path in (one, in_parts(tmp_path / "parts", shuffled)):
        assert not order_of(files_of(path)).ascending
        assert read_parquet(path) == tuple(spooled(path)) == OPS


def test_a_long_table_is_sorted_by_ranges(tmp_path: Path) -> None:
    """Its ranges are many, and rows of equal indices stay as they lie."""
    count, path = 400_000, tmp_path / "long.parquet"
    mixed = [(n * 7919) % count for n in range(count)]
    columns: dict[str, Any] = {
        "index": mixed, "time": range(count), "type": pa.repeat("info", count),
        "process": pa.nulls(count, pa.int64()), "process_name": pa.repeat("run", count),
        "f": pa.repeat("x", count), "pair": pa.repeat(-1, count), "run_id": pa.repeat("", count),
    }  # fmt: skip
    texts = {name: pa.nulls(count, pa.string()) for name in ("value", "error", "ext")}
    table = pa.table({**columns, **texts})
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)
    with spool() as rows:
        spool_table(path, rows)
        found = pa.Table.from_batches(rows.batches())
    assert found["index"].to_pylist() == [0, *range(count)]
    assert found["time"].to_pylist()[:2] == [0, 0]


def changed(name: str, change: Callable[[Any], Any]) -> pa.Table:
    at = EVENTS.names.index(name)
    return TABLE.set_column(at, name, change(TABLE[name]))


WRITTEN: dict[str, pa.Table] = {
    "no version is said": TABLE.replace_schema_metadata(None),
    "processes as pandas has them": changed("process", lambda c: c.cast(pa.float64())),
    "long texts": changed("value", lambda c: c.cast(pa.large_string())),
    "texts as codes": changed("f", lambda c: c.dictionary_encode()),
    "views of texts": changed("ext", lambda c: c.cast(pa.string_view())),
    "numbers of 32 bits": changed("index", lambda c: c.cast(pa.int32())),
    "columns in another order, and one more": pa.table(
        {name: TABLE[name] for name in reversed(EVENTS.names)}
    ).append_column("__index_level_0__", pa.array(range(len(OPS)))),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_table_that_another_tool_wrote_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(WRITTEN[name], path)

    assert read_parquet(path) == tuple(by_pieces(path)) == tuple(spooled(path)) == OPS


WRONG: dict[str, tuple[pa.Table, str]] = {
    "another version": (
        TABLE.replace_schema_metadata({"maxq.schema": "2"}), "schema version '2', expected '1'"),
    "half a process": (
        changed("process", lambda c: pc.add(c.cast(pa.float64()), 0.5)), "truncated"),
    "a process too high": (
        changed("process", lambda c: pc.add(c.cast(pa.float64()), 2.0**60)), "cannot tell apart"),
    "indices that are floats": (
        changed("index", lambda c: c.cast(pa.float64())), "index is double, not a number"),
    "no index": (
        changed("index", lambda c: pa.array([None, *c.to_pylist()[1:]], pa.int64())),
        "must be integers: None"),
    "a column twice": (TABLE.append_column("f", TABLE["f"]), "f is there twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_table_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    table, words = WRONG[name]
    path = tmp_path / "table.parquet"
    pq.write_table(table, path)

    for read in (read_parquet, spooled):
        with pytest.raises(HistoryError, match=words):
            read(path)


def of_another_run(folder: Path) -> None:
    stray = events_table(OPS[14:31], run_id="queue/2")
    pq.write_table(stray, next(folder.glob("part-00003*")))


def twice(folder: Path) -> None:
    shutil.copy(next(folder.glob("part-00003*")), folder / "part-00003 (copy).parquet")


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: next(folder.glob(f"{name}*")).unlink()


LACKING: dict[str, tuple[Callable[[Path], None], str]] = {
    "a part of another run": (
        of_another_run, "part-00004.* is of run 'queue/1', part-00003.* of 'queue/2'"),
    "a part twice": (
        twice, r"part-00003 \(copy\).parquet both hold 17 rows from index 14 on|"
        r"part-00003.* and part-00003.* both hold 17 rows from index 14 on"),
    "no first part": (without("part-00005"), "operations 0 to 12 are in no part"),
    "no third part": (without("part-00003"), "operations 14 to 30 are in no part"),
    "no last part": (without("part-00002"), "operation 31, which column pair names, is in no part"),
}  # fmt: skip


@pytest.mark.parametrize("name", LACKING)
def test_parts_that_are_no_table_are_refused(tmp_path: Path, name: str) -> None:
    damage, words = LACKING[name]
    path = in_parts(tmp_path / "history")
    damage(path)

    for read in (read_parquet, spooled):
        with pytest.raises(HistoryError, match=words):
            read(path)


def test_a_few_rows_of_a_history_may_be_in_many_parts(tmp_path: Path) -> None:
    """Gaps between parts that have no gap within may be there by chance."""
    sparse = pa.concat_tables([TABLE.slice(at, 2) for at in (2, 14, 30)])
    path = in_parts(tmp_path / "history", sparse, (0, 2, 4, 6))

    assert [op.index for op in read_parquet(path)] == [2, 3, 14, 15, 30, 31]


def test_a_part_without_rows_counts_for_nothing(tmp_path: Path) -> None:
    path = in_parts(tmp_path / "history")
    pq.write_table(TABLE.slice(0, 0), path / "part-00000.parquet")
    pq.write_table(TABLE.slice(0, 0), path / "part-00001.parquet")

    assert read_parquet(path) == tuple(by_pieces(path)) == OPS
    assert read_table(path)[1].complete


def cut(folder: Path) -> None:
    path = next(folder.glob("part-00003*"))
    path.write_bytes(path.read_bytes()[:-50])


def flipped(folder: Path) -> None:
    """One bit of the texts in the second row group of a part, which has checksums."""
    path = next(folder.glob("part-00003*"))
    how: dict[str, Any] = {"write_page_checksum": True, "use_dictionary": False}
    pq.write_table(pq.read_table(path), path, row_group_size=GROUP, **how)
    chunk = pq.read_metadata(path).row_group(1).column(7)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 1
    path.write_bytes(data)


def doubled(folder: Path) -> None:
    shutil.copy(next(folder.glob("part-00003*")), folder / "part-9.parquet")


def foreign(folder: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), next(folder.glob("part-00003*")))


DAMAGED: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "a part is cut": (cut, 14, "part-00003-x.c000.snappy.parquet: "),
    "a bit of a part": (flipped, 21, "part-00003-x.c000.snappy.parquet: rows 7 to 13: "),
    "a part of another table": (foreign, 14, "part-00003.*: not an events table: no column"),
    "a part twice": (doubled, len(OPS), "both hold 17 rows"),
    "no first part": (without("part-00005"), 0, "operations 0 to 12 are in no part"),
    "no third part": (without("part-00003"), 14, "operations 14 to 30 are in no part"),
    "no last part": (without("part-00002"), 31, "operation 31, which column pair names"),
}  # fmt: skip


@pytest.mark.parametrize("order", ["index", "f"])
@pytest.mark.parametrize("name", DAMAGED)
def test_of_a_damaged_table_what_precedes_the_damage_is_read(
    tmp_path: Path, name: str, order: str
) -> None:
    """Rows in another order say by their gaps where that is, if a part of them is found damaged."""
    damage, count, words = DAMAGED[name]
    path = in_parts(tmp_path / "history", TABLE.sort_by(order))
    damage(path)
    found = order == "index" or damage in (cut, doubled, flipped, foreign)
    if found:
        with pytest.raises(HistoryError, match=words if order == "index" else "part-00003"):
            read_parquet(path)
    ops, report = read_table(path, allow_truncated=True)
    values = Values()
    with spool() as rows:
        assert spool_table(path, rows, allow_truncated=True) == report
        assert [op for batch in rows.batches() for op in values.ops_of(batch)] == list(ops)

    if found:
        assert (report.complete, len(ops)) == (False, report.count)
        assert ops == OPS[: len(ops)]
        assert order == "f" or len(ops) == count
        assert report.damage
