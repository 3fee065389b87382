"""Run folders: three saves, links, and reading what a killed harness left."""

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from maxq.histories.jsonl import ReadReport
from maxq.histories.op import HistoryError, Op
from maxq.histories.store import RunStore, open_run, write_whole

START = datetime(2026, 7, 31, 14, 25, 30, 123_999, tzinfo=UTC)
OPS = (
    Op("invoke", 0, "send", [["send", 0, 1]], None, 0, 5),
    Op("ok", 0, "send", [["send", 0, [0, 1]]], None, 1, 9, {"node": "b1"}),
)


def test_a_run_is_saved_in_three_steps(tmp_path: Path) -> None:
    """`open_run` reads it after each of them."""
    run = RunStore(tmp_path).create("queue", START)
    assert run.path == tmp_path / "queue" / "20260731T142530.123Z"
    assert run.run_id == "queue/20260731T142530.123Z"
    with pytest.raises(HistoryError, match="no history"):
        open_run(run.path)

    run.save_config({"seed": 7})
    with run.open_journal() as journal:
        journal.append(OPS[0])
        journal.flush()
        killed = open_run(tmp_path / "latest")
        assert killed.path == run.path
        assert (killed.config, killed.results, killed.complete) == ({"seed": 7}, None, False)
        assert killed.report == ReadReport(count=1, complete=False)
        journal.append(OPS[1])
    assert open_run(run.path).complete is False

    run.save_results(OPS, {"valid": "unknown", "verdicts": [{"valid": False, "note": "unknown"}]})
    done = open_run(run.path)
    assert done.complete is True
    assert done.history.ops == OPS
    assert done.results == {"valid": "unknown", "verdicts": [{"valid": False, "note": "unknown"}]}
    assert (run.path / "results.edn").read_text() == (
        '{:valid? :unknown, :verdicts [{:valid? false, :note "unknown"}]}\n'
    )
    assert sorted(os.listdir(run.path)) == [
        *("config.json", "history.digests", "history.jsonl", "history.parquet", "results.edn"),
        "results.json",
    ]

    (run.path / "history.jsonl").unlink()
    assert open_run(run.path).history.ops == OPS


def test_links_point_at_the_newest_run_and_the_one_in_progress(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    first = store.create("queue", START)
    second = store.create("queue", START)
    other = store.create(
        "lock", (START + timedelta(hours=2)).astimezone(timezone(timedelta(0, 60)))
    )

    assert second.path.name == "20260731T142530.124Z"
    assert (tmp_path / "queue" / "latest").readlink() == Path(second.path.name)
    assert (tmp_path / "latest").resolve() == other.path
    assert (tmp_path / "current").resolve() == other.path
    assert other.path.name == "20260731T162530.123Z"
    assert store.runs() == (first.path, second.path, other.path)
    assert store.runs("queue") == (first.path, second.path)
    assert RunStore(tmp_path / "none").runs() == ()
    second.save_verdict({"valid": True})
    assert (tmp_path / "current").is_symlink()
    other.save_verdict({"valid": True})
    assert not (tmp_path / "current").is_symlink()


def test_names_cannot_leave_the_store(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    for name in ("", "../x", "a/b", ".hidden", "latest", "current"):
        with pytest.raises(ValueError):
            store.create(name, START)
    with pytest.raises(ValueError, match="time zone"):
        store.create("queue", START.replace(tzinfo=None))
    run = store.create("queue", START)
    with pytest.raises(ValueError, match="not a node's name"):
        run.node_dir("..")
    assert run.node_dir("b1") == run.node_dir("b1") == run.path / "nodes" / "b1"


def test_a_whole_file_is_never_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    write_whole(path, b"old")

    def crash(*_: object) -> None:
        raise OSError("crash")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="crash"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


def test_damaged_files_are_named(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("queue", START)
    run.save_results(OPS, {"valid": True})
    (run.path / "config.json").write_bytes(b"{")
    with pytest.raises(HistoryError, match=r"config\.json"):
        open_run(run.path)
    (run.path / "config.json").write_bytes(b'{"name": "\xff"}')
    with pytest.raises(HistoryError, match=r"config\.json: 'utf-8' codec"):
        open_run(run.path)
    (run.path / "history.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(HistoryError, match=r"history\.parquet"):
        open_run(run.path)
