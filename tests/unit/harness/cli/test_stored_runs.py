"""`maxq export` and `maxq check` of files."""

import errno
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from history_recorder import Recorder

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.terminal import program
from maxq.harness.run.process import memory
from maxq.harness.run.rejudge import FORMATS, open_file
from maxq.histories.jsonl import JournalWriter


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    recorder = Recorder()
    recorder.assign(1, 0, seek=True)
    recorder.fault("kill", **{"b0-0": True})
    for offset in range(3):
        recorder.send(0, 10 + offset, offset, broker="x:1")
    recorder.poll(1, (0, 10), (2, 12), end={0: 3})
    path = tmp_path / "history.jsonl"
    with JournalWriter(path) as writer:
        for op in recorder.ops:
            writer.append(op)
    return path


def test_every_format_holds_the_same(journal: Path, tmp_path: Path) -> None:
    ops = open_file(journal).history.ops
    for form in ("edn", "parquet", "jsonl"):
        out = tmp_path / f"out.{form}"
        assert run_cli(["export", str(journal), "--format", form, "--output", str(out)]) == 0
        assert open_file(out).history.ops == ops, form
        # And from each into each other.
        for other in ("edn", "parquet", "jsonl"):
            again = tmp_path / f"again.{other}"
            assert run_cli(["export", str(out), "--format", other, "--output", str(again)]) == 0
            assert open_file(again).history.ops == ops, (form, other)


def test_a_file_is_judged_and_what_is_assumed_is_said(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_cli(["check", str(journal), "--workload", "queue", "--verbose"])
    out, err = capsys.readouterr()

    assert code == 1
    assert "no config: assumed are settings that promise everything" in err
    assert "2 clients at a time" in err
    assert "S6 lost-write" in out
    assert f"repeat:  {program()} check {journal} --workload queue" in out


@pytest.mark.parametrize(("how", "suffix"), [("gzip", ".gz"), ("zstd", ".zst")])
def test_a_packed_file_is_judged_as_what_is_in_it(
    journal: Path, how: Any, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for form in ("jsonl", "edn", "parquet"):
        plain = journal.with_name(f"h.{form}")
        run_cli(["export", str(journal), "--format", form, "--output", str(plain)])
        packed = plain.with_name(f"{plain.name}{suffix}")
        packed.write_bytes(pa.compress(plain.read_bytes(), how, asbytes=True))
        said = []
        for path in (plain, packed):
            capsys.readouterr()
            assert run_cli(["check", str(path), "--workload", "queue"]) == 1
            said.append(capsys.readouterr().out.replace(str(path), "FILE"))
        assert said[0] == said[1], form


@pytest.mark.parametrize("form", ["edn", "jsonl", "parquet"])
def test_a_history_without_events_is_unknown(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"none.{form}"
    path.write_bytes(FORMATS[form]([], "r"))
    assert run_cli(["check", str(path), "--workload", "queue"]) == 2
    assert "verdict: unknown: no operation by any client" in capsys.readouterr().out


def test_a_file_needs_a_workload_and_a_folder_has_one(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["check", str(journal)]) == 254
    assert "--workload is needed" in capsys.readouterr().err
    assert run_cli(["check", str(tmp_path), "--workload", "queue"]) == 254
    assert "--workload is for files" in capsys.readouterr().err


def test_a_suffix_that_says_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.txt"
    path.write_text("")
    assert run_cli(["check", str(path), "--workload", "queue"]) == 254
    assert "known: .edn, .jsonl, .parquet" in capsys.readouterr().err


@pytest.mark.parametrize("older", ["columns", "local"])
def test_engines_of_older_versions_are_today_s(
    journal: Path, older: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for engine in (older, "here"):
        assert run_cli(["check", str(journal), "--workload", "queue", "--engine", engine]) == 1
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert run_cli(["check", str(journal), "--engine", "column"]) == 254
    assert "'column' is unknown; known: here, spark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--memory", "2"], "'2' is no size such as 800MB or 2GB"),
        (["--memory", "1GBs"], "'1GBs' is no size such as 800MB or 2GB"),
        (["--memory", "600MB"], "at least 700MB, which reading a history takes"),
        (["--memory", "2GB", "--engine", "spark"], "--memory is for judging here: leave it out"),
        (["--jobs", "2", "--engine", "spark"], "--jobs is for judging here: leave it out, or"),
    ],
)
def test_a_memory_that_is_none_is_refused(
    journal: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["check", str(journal), "--workload", "queue", *words]) == 254
    assert said in capsys.readouterr().err


def test_a_key_larger_than_memory_is_one_sentence(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none_left = mock.patch.multiple(memory, ROOM=1, memory_used=lambda: 1 << 40)
    with none_left:
        code = run_cli(["check", str(journal), "--workload", "queue", "--memory", "1.5GB"])
    assert code == 254
    assert re.search(
        r"one queue, lock or broker set take about \d+ MB of memory to judge, and 0 MB are left\n",
        capsys.readouterr().err,
    )


@pytest.mark.parametrize(
    "where", ["checkers.judgement.piecewise.buckets.Buckets.put", "histories.lines.spool.Spool.add"]
)
def test_a_full_disk_is_one_sentence_of_columns(
    journal: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    full = mock.patch(f"maxq.{where}", side_effect=OSError(errno.ENOSPC, "No space"))
    with full, mock.patch.multiple(memory, WHOLE=0, ROOM=1):
        code = run_cli(["check", str(journal), "--workload", "queue"])
    assert code == 255
    last = capsys.readouterr().err.splitlines()[-1]
    assert "the disk is full where a judgement keeps rows (TMPDIR): " in last
