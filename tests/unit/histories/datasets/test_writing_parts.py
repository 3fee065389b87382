"""How runs are laid into parts, and that nothing unfinished is taken for whole."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_manifest_damage import dataset, rows

from maxq.histories.datasets import writing
from maxq.histories.datasets.manifest import (
    MANIFEST,
    UNFINISHED,
    Source,
    Stretch,
    part_path,
    read_manifest,
)
from maxq.histories.datasets.writing import Writer, dataset_in, is_unfinished
from maxq.histories.op import HistoryError
from maxq.histories.parquet import File, files_of, read_batches

SOURCES = (Source("r", "r"),)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(writing, "GROUPS_MAX", 3)


def test_small_runs_share_a_part_and_a_row_group_is_of_one_run(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "d")
    found = [writer.run(f"r{n}", iter(rows(n).to_batches())) for n in (4, 0, 25, 10)]
    writer.end_part()

    assert found == [
        (Stretch(0, 0, 0, (4,)),),
        (),
        (Stretch(0, 1, 0, (10, 10)), Stretch(1, 0, 20, (5,))),
        (Stretch(1, 1, 0, (10,)),),
    ]
    assert len(writer.parts) == 2
    for number, runs in ((0, ["r4", "r25", "r25"]), (1, ["r25", "r10"])):
        file = pq.ParquetFile(part_path(tmp_path, number))
        groups = [file.read_row_group(n)["run_id"].unique().to_pylist() for n in range(len(runs))]
        assert groups == [[run] for run in runs]
        assert file.metadata.row_group(0).column(1).compression == "ZSTD"


@pytest.mark.parametrize("rows_each", [1, 3, 10, 11, 64])
def test_rows_come_back_in_order_however_they_came(tmp_path: Path, rows_each: int) -> None:
    table = rows(47, "one")
    with dataset_in(tmp_path / "d", SOURCES) as (writer, _):
        stretches = writer.run("one", iter(table.to_batches(max_chunksize=rows_each)))
    assert sum(n for at in stretches for n in at.rows) == 47
    assert max(n for at in stretches for n in at.rows) <= 10
    files = tuple(File(part_path(tmp_path / "d", s.part), s.rows, s.first, "one", s.begin)
                  for s in stretches)  # fmt: skip
    batches = [*read_batches(files)]
    assert pa.Table.from_batches(batches).equals(table.cast(batches[0].schema))


def test_long_rows_make_small_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP_BYTES", 1)
    found = Writer(tmp_path, "d").run("r", iter(rows(3).to_batches()))
    assert [at.rows for at in found] == [(1, 1, 1)]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    with pytest.raises(KeyboardInterrupt):
        interrupted(folder)
    assert not folder.exists()


def interrupted(folder: Path) -> None:
    with dataset_in(folder, SOURCES) as (writer, _):
        writer.run("r", iter(rows(45).to_batches()))
        assert part_path(folder, 0).exists()
        raise KeyboardInterrupt


def killed(folder: Path) -> None:
    """What a process leaves that was ended in the middle."""
    written = dataset(folder.with_name("whole"), "one", "three")
    folder.mkdir()
    for name in ("part-00000.parquet", ".part-00001.parquet.tmp"):
        (folder / name).write_bytes((written / "part-00000.parquet").read_bytes())
    sources = (Source("one", "one"), Source("three", "three"))
    (folder / UNFINISHED).write_bytes(msgspec.json.encode(sources))


def test_what_a_killed_process_leaves_is_not_whole_and_is_begun_again(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    killed(folder)
    assert is_unfinished(folder)
    with pytest.raises(HistoryError, match="is not whole"):
        read_manifest(folder)
    with pytest.raises(HistoryError, match="may hold several runs"):
        files_of(folder)

    dataset(folder, "one", "three")

    assert not is_unfinished(folder)
    names = {MANIFEST, "part-00000.parquet", "part-00001.parquet"}
    assert {path.name for path in folder.iterdir()} == names


def test_a_folder_with_anything_else_is_refused_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    killed(folder)
    with pytest.raises(HistoryError, match="was begun with other runs"):
        dataset(folder, "another")
    assert is_unfinished(folder)
    whole = tmp_path / "whole"
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(HistoryError, match="is there already"):
        dataset(whole, "one", "three")
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


def test_a_process_that_was_killed_at_once_is_in_nobody_s_way(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / f".{UNFINISHED}.tmp").write_bytes(b"")
    dataset(tmp_path / "d", "one")
    assert len(read_manifest(tmp_path / "d").runs) == 1
