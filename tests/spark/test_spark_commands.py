"""`maxq check --engine spark`: the same words as without Spark, of runs and of files."""

from pathlib import Path
from typing import Any

import pytest
from history_recorder import Recorder
from small import SMALL_ARGS
from spark_fixture import spark

from maxq.harness.cli.main import run_cli
from maxq.histories.jepsen import encode_edn
from maxq.histories.store import REPORT

__all__ = ("spark",)  # the fixture; pytest finds it here

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def invalid_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("invalid")
    chosen = ("--seed", "1", "--time-limit", "15s", "--mutant", "ack_before_write")
    where = ("--environment", "simulated", "--store", str(folder))
    assert run_cli(["test", *where, *SMALL_ARGS, *chosen, "--json"]) == 1
    return (folder / "latest").resolve()


def told(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, object]:
    """Exit code, and what is printed."""
    code = run_cli([str(a) for a in argv])
    return code, capsys.readouterr().out


def test_a_run_is_judged_alike(
    spark: Any, invalid_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    local = told(capsys, "check", invalid_run, "--json")
    page = (invalid_run / REPORT).read_bytes()
    (invalid_run / REPORT).unlink()

    assert local[0] == 1
    assert told(capsys, "check", invalid_run, "--engine", "spark", "--json") == local
    assert (invalid_run / REPORT).read_bytes() == page


def test_a_run_without_a_table_is_judged_from_its_journal(
    spark: Any, invalid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "history.jsonl", "history.digests"):
        (tmp_path / name).write_bytes((invalid_run / name).read_bytes())
    local = told(capsys, "check", tmp_path, "--json")

    assert local[0] == 1
    assert told(capsys, "check", tmp_path, "--engine", "spark", "--json") == local


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So short that all wrong answers are planted in less time than there is for them."""
    folder = tmp_path_factory.mktemp("short")
    words = ("--environment", "simulated", "--workload", "queue", "--rate", "10", "--nemesis",
             "kill", "--time-limit", "5s", "--seed", "1", "--store", str(folder))  # fmt: skip
    assert run_cli(["test", *words, "--json"]) == 0
    return (folder / "latest").resolve()


def test_what_takes_all_operations_is_done_alike(
    spark: Any,
    short_run: Path,
    invalid_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wrong answers that are planted, faults that are left out, and the smallest part."""
    said: dict[str, list[object]] = {}
    for engine in ("here", "spark"):
        small = tmp_path / engine
        asked = ("--engine", engine, "--explain", "--minimal", small)
        found = [
            told(capsys, "check", short_run, "--engine", engine, "--power", "-v"),
            (short_run / REPORT).read_bytes(),
            told(capsys, "check", invalid_run, *asked),
            (invalid_run / REPORT).read_bytes(),
            *(file.read_bytes() for file in sorted(small.rglob("*")) if file.is_file()),
        ]
        said[engine] = [str(each).replace(str(small), "DIR") for each in found]
    assert len(said["here"]) > 4
    assert "planted" in str(said["here"][0])
    assert "tried: " in str(said["here"][2])
    assert said["spark"] == said["here"]


def test_a_damaged_table_is_named(
    spark: Any, invalid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "results.edn"):  # without a journal, which would be read instead
        (tmp_path / name).write_bytes((invalid_run / name).read_bytes())
    (tmp_path / "history.parquet").write_bytes(b"PAR1 no more")

    code = run_cli(["check", str(tmp_path), "--engine", "spark"])

    assert code == 254
    assert "history.parquet: " in capsys.readouterr().err


def test_a_flipped_bit_of_a_table_is_named_with_its_rows(
    spark: Any, invalid_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "results.edn", "history.parquet"):
        (tmp_path / name).write_bytes((invalid_run / name).read_bytes())
    table = tmp_path / "history.parquet"
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)

    code = run_cli(["check", str(tmp_path), "--engine", "spark"])

    assert code == 254
    assert "history.parquet: rows 0 to " in capsys.readouterr().err


def test_a_history_of_jepsen_is_judged_alike(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder()
    for offset in range(3):
        recorder.send(0, 10 + offset, offset)
    recorder.poll(1, (0, 10), (2, 12))
    path = tmp_path / "history.edn"
    path.write_bytes(encode_edn(recorder.ops))
    arguments = ("check", path, "--workload", "queue", "-v")
    local = told(capsys, *arguments)

    assert local[0] == 1
    assert "lost-write" in str(local[1])
    assert told(capsys, *arguments, "--engine", "spark") == local
