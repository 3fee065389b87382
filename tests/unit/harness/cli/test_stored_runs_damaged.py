"""`maxq check` of parts of a table of which one cannot be taken, with --allow-truncated or not."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from history_recorder import Recorder

from maxq.harness.cli.main import run_cli
from maxq.histories.jepsen import encode_edn
from maxq.histories.op import Op
from maxq.histories.tables import events_table

ROWS = 40  # of a part
LAST = "part-2.parquet"


def history(*, lost: bool = False, twice: bool = False) -> list[Op]:
    """Messages that are read at last. The first part shows whether one is `lost`, as a consumer
    passed it, and whether one was given at two offsets (`twice`)."""
    recorder = Recorder()
    if lost:
        recorder.assign(1, 1, seek=True)
        recorder.send(0, 1, 0, key=1)
        recorder.send(0, 2, 1, key=1)
        recorder.poll(1, (1, 2), key=1)
    if twice:
        recorder.send(0, 3, 0, key=2)
        recorder.poll(1, (0, 3), (1, 3), key=2)
    for offset in range(30):
        recorder.send(0, 10 + offset, offset)
    for offset in range(30):
        recorder.poll(1, (offset, 10 + offset))
    return recorder.ops


def in_parts(folder: Path, ops: list[Op]) -> Path:
    folder.mkdir()
    table = events_table(ops, run_id="r")
    for number in range(3):
        rows = table.slice(number * ROWS, ROWS if number < 2 else None)
        pq.write_table(rows, folder / f"part-{number}.parquet")
    return folder


def cut(folder: Path) -> None:
    (folder / LAST).write_bytes((folder / LAST).read_bytes()[:-9])


def empty(folder: Path) -> None:
    (folder / LAST).write_bytes(b"")


def foreign(folder: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), folder / LAST)


def without_a_column(folder: Path) -> None:
    pq.write_table(pq.read_table(folder / LAST).drop_columns(["ext"]), folder / LAST)


def of_another_type(folder: Path) -> None:
    table = pq.read_table(folder / LAST)
    at = table.schema.get_field_index("index")
    pq.write_table(table.set_column(at, "index", table["f"]), folder / LAST)


def of_another_version(folder: Path) -> None:
    table = pq.read_table(folder / LAST).replace_schema_metadata({"maxq.schema": "0"})
    pq.write_table(table, folder / LAST)


def doubled(folder: Path) -> None:
    shutil.copy(folder / LAST, folder / "part-3.parquet")


def missing(folder: Path) -> None:
    (folder / "part-1.parquet").unlink()


DAMAGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut": (cut, f"{LAST}: Parquet magic bytes not found"),
    "empty": (empty, f"{LAST}: Parquet file size is 0 bytes"),
    "foreign": (foreign, f"{LAST}: not an events table: no column"),
    "a column missing": (without_a_column, f"{LAST}: not an events table: no column ['ext']"),
    "another type": (of_another_type, f"{LAST}: not an events table: index is string"),
    "another version": (of_another_version, f"{LAST}: schema version '0', expected '1'"),
    "twice": (doubled, f"{LAST} and part-3.parquet both hold "),
    "missing": (missing, "operations 40 to 79 are in no part"),
}


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("name", DAMAGED)
def test_it_is_named_or_what_precedes_it_is_judged_and_kept_by_nothing(
    tmp_path: Path, name: str, jobs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, said = DAMAGED[name]
    path = in_parts(tmp_path / "parts", history())
    words = ["check", str(path), "--workload", "queue", "-v", "--jobs", jobs]
    assert run_cli(words) == 0
    damage(path)
    capsys.readouterr()

    assert run_cli(words) == 254
    *_, refused = capsys.readouterr().err.splitlines()
    assert refused.startswith(f"error: {said}")

    said = f"part-3.parquet is a copy of {LAST}" if name == "twice" else said
    assert run_cli([*words, "--allow-truncated"]) == 2
    out, err = capsys.readouterr()
    assert f"the history is damaged: {said}" in err
    plain = " ".join(out.split())
    assert f"since the history is damaged: {said.partition(':')[0]}" in plain
    assert re.search(r"claims: +6 not judged ", plain)


@pytest.mark.parametrize("name", DAMAGED)
def test_what_missing_rows_may_show_is_not_called_lost(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = in_parts(tmp_path / "parts", history(lost=True))
    words = ["check", str(path), "--workload", "queue", "-v"]
    assert run_cli(words) == 1
    assert "BROKEN no acknowledged message lost (S6): 1 lost-write" in said_in(capsys)
    DAMAGED[name][0](path)
    assert run_cli([*words, "--allow-truncated"]) == 2
    plain = said_in(capsys)
    assert "what was not read until there may be read behind it (1 lost-write)" in plain
    assert "not judged whether acknowledged messages were lost" in plain
    assert "BROKEN" not in plain


@pytest.mark.parametrize("name", DAMAGED)
def test_what_nothing_can_take_back_is_broken(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = in_parts(tmp_path / "parts", history(lost=True, twice=True))
    DAMAGED[name][0](path)
    words = ["check", str(path), "--workload", "queue", "-v", "--allow-truncated"]
    assert run_cli(words) == 1
    plain = said_in(capsys)
    assert "BROKEN an offset keeps its message (S11): 1 duplicate" in plain
    assert "2 broken (S11, S16), 4 not judged" in plain
    assert "lost-write" not in plain.partition("not judged")[0]


def said_in(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_parts_that_differ_are_refused_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody knows which of them says what happened."""
    path = in_parts(tmp_path / "parts", history())
    table = pq.read_table(path / LAST)
    at = table.schema.get_field_index("value")
    pq.write_table(table.set_column(at, "value", table["ext"]), path / "part-3.parquet")
    assert run_cli(["check", str(path), "--workload", "queue", "--allow-truncated"]) == 254
    assert f"{LAST} and part-3.parquet both hold" in capsys.readouterr().err


def test_two_runs_of_one_id_are_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = in_parts(tmp_path / "parts", history())
    pq.write_table(events_table(history(twice=True), run_id="r"), path / "another.parquet")
    for more in ((), ("--allow-truncated",)):
        assert run_cli(["check", str(path), "--workload", "queue", *more]) == 2
        assert "W1 at op 0: another operation has index 0" in said_in(capsys)


def test_of_edn_that_is_cut_off_what_is_there_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.edn"
    path.write_bytes(encode_edn(history())[:-20])
    assert run_cli(["check", str(path), "--workload", "queue"]) == 254
    assert "history.edn: line 120: " in capsys.readouterr().err
    assert run_cli(["check", str(path), "--workload", "queue", "--allow-truncated"]) == 2
    assert "judged are the first 119 events" in capsys.readouterr().err
