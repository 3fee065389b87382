"""Pieces that somebody asks for are read once, as far as there is room."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from history_recorder import Recorder

from maxq.harness.run import piecewise
from maxq.histories.parquet import JUDGED, Files, files_of, read_coded
from maxq.histories.tables import events_table

GROUP = 10  # rows
Asked = list[list[int] | None]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    recorder = Recorder()
    for offset in range(20):
        recorder.send(0, offset, offset)
    path = tmp_path / "history.parquet"
    pq.write_table(events_table(recorder.ops, run_id="r"), path, row_group_size=GROUP)
    return files_of(path)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The pieces that were read from the file, by reading."""
    found: Asked = []

    def read(
        files: Files, names: Sequence[str], pieces: Collection[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        found.append(None if pieces is None else sorted(pieces))
        return read_coded(files, names, pieces)

    monkeypatch.setattr(piecewise, "read_coded", read)
    return found


def first_rows(batches: Iterator[Any]) -> list[int]:
    return [batch["index"][0].as_py() for batch in batches]


def test_few_are_kept_from_the_first_reading_on(files: Files, asked: Asked) -> None:
    kept = piecewise._Kept(files)
    assert first_rows(kept()) == [0, 10, 20, 30]
    assert first_rows(kept()) == [0, 10, 20, 30]
    assert first_rows(kept([3, 1])) == [10, 30]
    assert asked == [None, [], []]


def test_of_many_those_are_kept_that_somebody_asks_for(
    files: Files, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = max(batch.get_total_buffer_size() for batch in read_coded(files, JUDGED))
    monkeypatch.setattr(piecewise, "KEPT_BYTES", 2 * one)
    kept = piecewise._Kept(files)
    for pieces in (None, None, [2], [1, 2, 3], [1, 2, 3], None):
        expected = range(4) if pieces is None else pieces
        assert first_rows(kept(pieces)) == [n * GROUP for n in expected]
    assert asked == [None, [0, 1, 2, 3], [2], [1, 3], [3], [0, 3]]
