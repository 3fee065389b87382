"""`compact`: what becomes of each kind of run, and of those that cannot be taken."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_folders import history, stored

from maxq.harness.run.several.compacting import compact
from maxq.harness.run.several.given import given_by
from maxq.histories.datasets.manifest import Manifest, RunRows, read_manifest
from maxq.histories.datasets.writing import is_unfinished
from maxq.histories.op import HistoryError
from maxq.histories.parquet import encode_parquet, nullable, read_batches
from maxq.histories.store import JOURNAL, PARQUET, RESULTS_EDN
from maxq.histories.tables import EVENTS, events_table, ops_from_events


def compacted(out: Path, *paths: Path) -> Manifest:
    compact(given_by(paths), out, lambda done: None)
    return read_manifest(out)


def rows(out: Path, run: RunRows) -> pa.Table:
    batches = read_batches(read_manifest(out).files(out, run))
    return pa.Table.from_batches(batches, nullable(EVENTS.names)).cast(EVENTS)


def killed(store: Path) -> Path:
    return stored(store, history(5)[:-3], 1, ended=False)


def dead(store: Path) -> Path:
    """Before its first operation."""
    path = stored(store, [], 2, ended=False)
    (path / JOURNAL).unlink()
    return path


def without_a_table(store: Path) -> Path:
    path = stored(store, history(6), 3)
    (path / PARQUET).unlink()
    return path


def without_events(store: Path) -> Path:
    return stored(store, [], 4)


def test_every_run_comes_back_row_by_row(tmp_path: Path) -> None:
    """The table of a run is that which the run itself would have stored."""
    store, out = tmp_path / "runs", tmp_path / "d"
    made = {
        stored(store, history(4)): history(4),
        killed(store): history(5)[:-3],
        dead(store): [],
        without_a_table(store): history(6),
        without_events(store): [],
    }
    found = compacted(out, store)

    assert [run.source for run in found.runs] == [str(path) for path in made]
    for run, (path, ops) in zip(found.runs, made.items(), strict=True):
        assert run.id == f"queue/{path.name}"
        assert rows(out, run).equals(events_table(ops, run_id=run.id)), path
        config = (path / "config.json").read_bytes()
        assert bytes(run.config) == config.replace(b"\n", b" ").strip()
        assert run.report.count == len(ops)
    assert [run.report.complete for run in found.runs] == [True, False, False, True, True]
    assert [None if r.verdict is None else r.verdict.valid for r in found.runs] == [
        True, None, None, True, True,
    ]  # fmt: skip
    assert len(found.parts) == 1


def test_files_are_taken_as_well(tmp_path: Path) -> None:
    ops = history(4)
    table, journal = tmp_path / "one.parquet", tmp_path / "two.jsonl"
    table.write_bytes(encode_parquet(ops, run_id="by its rows"))
    shutil.copy(stored(tmp_path / "runs", ops) / JOURNAL, journal)
    parts = tmp_path / "three"
    parts.mkdir()
    for name, begin, end in (("b", 0, 4), ("a", 4, None)):
        own = events_table(ops, run_id="parts")[begin:end]
        pq.write_table(own, parts / f"{name}.parquet")

    found = compacted(tmp_path / "d", table, journal, parts)

    assert [run.id for run in found.runs] == ["by its rows", "two", "parts"]
    for run in found.runs:
        assert run.config_read() is None
        assert list(ops_from_events(rows(tmp_path / "d", run))) == ops


def test_a_copy_is_taken_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stored(tmp_path / "runs", history())
    copy = shutil.copytree(tmp_path / "runs", tmp_path / "again", symlinks=True)

    found = compacted(tmp_path / "d", tmp_path / "runs", copy, path)

    assert len(found.runs) == 1
    said = capsys.readouterr().err
    assert said == f"{copy / 'queue' / path.name} is a copy of {path}: taken once\n"


def another_of_its_name(store: Path) -> Path:
    copy = store.with_name("again")
    shutil.copytree(store, copy, symlinks=True)
    journal = next(copy.glob("queue/2*")) / JOURNAL
    journal.write_bytes(journal.read_bytes().replace(b'"send"', b'"sent"'))
    return copy


def with_a_damaged_journal(store: Path) -> Path:
    path = stored(store, history(), 1)
    (path / JOURNAL).write_bytes((path / JOURNAL).read_bytes().replace(b"10", b"11", 1))
    return path


def with_a_damaged_table(store: Path) -> Path:
    path = stored(store, history(100), 1)
    data = bytearray((path / PARQUET).read_bytes())
    data[len(data) // 2] ^= 1
    (path / PARQUET).write_bytes(data)
    return path


def with_a_bad_config(store: Path) -> Path:
    path = stored(store, history(), 1)
    (path / "config.json").write_bytes(b"{")
    return path


def nothing(store: Path) -> Path:
    empty = store.with_name("empty")
    empty.mkdir()
    return empty


def a_text(store: Path) -> Path:
    path = store.with_name("notes.txt")
    path.write_text("nothing")
    return path


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (another_of_its_name, "are both called queue/.*, and differ: leave one out"),
        (with_a_damaged_journal, "Z: history.jsonl: lines 1 to .*; leave this run out, or repair"),
        (with_a_damaged_table, "take history.parquet away, and its journal is read, which is"),
        (with_a_bad_config, "config.json: .*; leave this run out"),
        (nothing, "empty: no history in empty"),
        (a_text, "notes.txt: unknown suffix"),
    ],
)
def test_what_cannot_be_taken_is_refused_and_leaves_nothing(
    made: Callable[[Path], Path], said: str, tmp_path: Path
) -> None:
    store, out = tmp_path / "runs", tmp_path / "d"
    stored(store, history())
    other = made(store)
    with pytest.raises(HistoryError, match=said):
        compacted(out, store, other)
    assert not out.exists()


def test_a_damaged_table_that_is_taken_away_is_no_matter(tmp_path: Path) -> None:
    path = with_a_damaged_table(tmp_path / "runs")
    (path / PARQUET).unlink()
    (path / RESULTS_EDN).unlink()
    found = compacted(tmp_path / "d", path)
    assert list(ops_from_events(rows(tmp_path / "d", found.runs[0]))) == history(100)


def test_a_run_that_still_goes_on_is_refused(tmp_path: Path) -> None:
    path = stored(tmp_path / "runs", history(), ended=False)
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(HistoryError, match="the run still goes on; leave this run out"):
        compacted(tmp_path / "d", path)
    os.close(fd)
    assert len(compacted(tmp_path / "d", path).runs) == 1


def test_a_dataset_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    path, out = stored(tmp_path / "runs", history()), tmp_path / "d"
    out.mkdir()
    fd = os.open(out, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(HistoryError, match="another `maxq compact` writes "):
        compacted(out, path)
    os.close(fd)


def in_a_process(body: str, *paths: Path) -> "subprocess.CompletedProcess[str]":
    script = (
        "import os, resource, sys; from pathlib import Path; "
        "from maxq.harness.cli.main import run_cli; "
        "from maxq.harness.run.several import compacting, given; "
        f"store, out = sys.argv[1:]; {body}"
    )
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, paths)], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (True, "the disk is full: nothing is kept; free some of it and begin again: {out}"),
        (False, "the disk is full where a judgement keeps rows (TMPDIR): {tmp}"),
    ],
)
def test_a_full_disk_is_said_and_leaves_nothing(ended: bool, said: str, tmp_path: Path) -> None:
    """No file may have more than 9,000 bytes; Python ignores SIGXFSZ, so the write just fails."""
    store, out = tmp_path / "runs", tmp_path / "d"
    for number in range(3):
        stored(store, history(400), number, ended=ended)
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); "
    done = in_a_process(limit + "sys.exit(run_cli(['compact', store, '--out', out]))", store, out)

    assert done.returncode == 255
    assert said.format(out=out, tmp=tempfile.gettempdir()) in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_an_interrupt_leaves_nothing_and_says_how_to_go_on(tmp_path: Path) -> None:
    store, out = tmp_path / "runs", tmp_path / "d"
    stored(store, history())
    interrupt = (
        "import signal; from maxq.harness.cli import main; "
        "from maxq.histories.datasets import writing; "
        "writing.part_of = lambda path: signal.raise_signal(signal.SIGINT); "
        "sys.argv = ['maxq', 'compact', store, '--out', out]; main.main()"
    )
    done = in_a_process(interrupt, store, out)

    assert done.returncode == 128 + signal.SIGINT
    assert "interrupted by SIGINT\ngo on:   " in done.stderr
    assert f"compact {store} --out {out}\n" in done.stderr
    assert not out.exists()


def test_a_process_that_is_killed_leaves_nothing_whole_and_the_same_again_ends_it(
    tmp_path: Path,
) -> None:
    store, out = tmp_path / "runs", tmp_path / "d"
    for number in range(3):
        stored(store, history(), number)
    die = (
        "compacting.compact(given.given_by([Path(store)]), Path(out), "
        "lambda done: done == 2 and os.kill(os.getpid(), 9))"
    )
    done = in_a_process(die, store, out)

    assert done.returncode == -signal.SIGKILL
    assert is_unfinished(out)
    with pytest.raises(HistoryError, match="is not whole"):
        read_manifest(out)
    assert len(compacted(out, store).runs) == 3
    assert not is_unfinished(out)
