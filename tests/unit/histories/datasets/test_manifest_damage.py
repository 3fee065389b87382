"""What is noticed of a dataset that is not as it was written."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from maxq.histories.datasets.manifest import (
    MANIFEST,
    Manifest,
    RunRows,
    Source,
    damaged_parts,
    is_dataset,
    part_path,
    read_manifest,
)
from maxq.histories.datasets.writing import dataset_in
from maxq.histories.jsonl import ReadReport
from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import events_table


def rows(count: int, run: str = "r") -> pa.Table:
    ops = [Op("invoke", at, "send", f"v{at}", None, at, at, None) for at in range(count)]
    return events_table(ops, run_id=run)


def dataset(folder: Path, *runs: str) -> Path:
    """Of some runs with as many rows as their names have letters."""
    with dataset_in(folder, tuple(Source(run, run) for run in runs)) as (writer, found):
        for run in runs:
            at = writer.run(run, iter(rows(len(run)).to_batches()))
            report = ReadReport(count=len(run), complete=True)
            config = msgspec.Raw(b'{"a": 1}')
            found.append(RunRows(id=run, source=run, config=config, report=report, stretches=at))
            writer.end_part()
    return folder


def missing(folder: Path) -> None:
    part_path(folder, 1).unlink()


def cut(folder: Path) -> None:
    part_path(folder, 1).write_bytes(part_path(folder, 1).read_bytes()[:-9])


def empty(folder: Path) -> None:
    part_path(folder, 1).write_bytes(b"")


def changed(folder: Path) -> None:
    data = bytearray(part_path(folder, 1).read_bytes())
    data[len(data) // 2] ^= 1
    part_path(folder, 1).write_bytes(data)


def longer(folder: Path) -> None:
    with part_path(folder, 1).open("ab") as file:
        file.write(b"\0")


def of_another(folder: Path) -> None:
    other = dataset(folder.with_name("other"), "one", "three", "two")
    shutil.copy(part_path(other, 1), part_path(folder, 1))


def of_the_same(folder: Path) -> None:
    shutil.copy(part_path(folder, 0), part_path(folder, 1))


def a_folder(folder: Path) -> None:
    part_path(folder, 1).unlink()
    part_path(folder, 1).mkdir()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (missing, "is missing"),
        (cut, "is cut: "),
        (empty, "is cut: 0 of "),
        (changed, "is damaged: its digest is another"),
        (longer, "is damaged: its digest is another"),
        (of_another, "is of another dataset"),
        (of_the_same, "is "),
        (a_folder, "is missing"),
    ],
)
def test_a_part_that_is_not_as_it_was_is_found(
    how: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    folder = dataset(tmp_path / "d", "one", "three", "five5")
    manifest = read_manifest(folder)
    assert damaged_parts(folder, manifest) == {}

    how(folder)

    found = damaged_parts(folder, manifest)
    assert [*found] == [1]
    assert found[1].startswith(said)


def test_any_byte_that_changes_is_noticed(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "d", "one", "three")
    draws = random.Random(1)
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for at in (0, len(data) - 1, *(draws.randrange(len(data)) for _ in range(60))):
            wrong = bytearray(data)
            wrong[at] ^= 1 << draws.randrange(8)
            path.write_bytes(wrong)
            assert noticed(folder), (path.name, at)
        path.write_bytes(data)
    assert not noticed(folder)


def noticed(folder: Path) -> bool:
    try:
        manifest = read_manifest(folder)
    except HistoryError:
        return True
    return bool(damaged_parts(folder, manifest))


def set_version(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"dataset":1', b'"dataset":2'))


def no_body(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_bytes(path.read_bytes().partition(b"\n")[0])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (set_version, "version 2, expected 1"),
        (no_body, "is not as it was written: `maxq compact` the runs again"),
        (lambda folder: (folder / MANIFEST).write_bytes(b""), "is no manifest"),
        (lambda folder: (folder / MANIFEST).unlink(), "is not whole: `maxq compact` was cut off"),
    ],
)
def test_a_manifest_that_is_none_is_refused(
    how: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    folder = dataset(tmp_path / "d", "one")
    how(folder)
    with pytest.raises(HistoryError, match=said):
        read_manifest(folder)


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    """The config also where it has ends of lines."""
    folder = dataset(tmp_path / "d", "one", "three")
    found: Manifest = read_manifest(folder)
    assert [run.id for run in found.runs] == ["one", "three"]
    assert [run.config_read() for run in found.runs] == [{"a": 1}] * 2
    assert is_dataset(folder)
    assert not is_dataset(tmp_path)


def test_a_config_with_ends_of_lines_stays_what_it_says(tmp_path: Path) -> None:
    with dataset_in(tmp_path / "d", (Source("r", "r"),)) as (_, found):
        report = ReadReport(count=0, complete=False)
        config = msgspec.Raw(b'{\r\n "a": "b\\nc"\n}\n')
        found.append(RunRows(id="r", source="r", config=config, report=report))
    assert read_manifest(tmp_path / "d").runs[0].config_read() == {"a": "b\nc"}
