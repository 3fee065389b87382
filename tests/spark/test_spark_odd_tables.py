"""Tables that are odd or damaged: Spark says of them what is said without it."""

import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from history_recorder import Recorder
from spark_fixture import spark

from maxq.checkers.core.api import Context
from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.piecewise.parts import Part, surveyed
from maxq.checkers.messages.durability import Durability
from maxq.harness.cli.main import run_cli
from maxq.histories.op import HistoryError
from maxq.histories.parquet import File, open_table
from maxq.histories.tables import EVENTS, events_table
from maxq.spark_checkers import jvm
from maxq.spark_checkers.engine import Table, judge_on
from maxq.spark_checkers.jobs import OfRun, each
from maxq.spark_checkers.session import SparkFailed, failures

__all__ = ("spark",)  # the fixture; pytest finds it here

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
GROUP = 20  # rows


def table(messages: int, *, times: int = 1) -> pa.Table:
    """Sends of one queue, and one reader behind them; each row so many times."""
    recorder = Recorder()
    for offset in range(messages):
        recorder.send(0, 10 + offset, offset)
        recorder.poll(1, (offset, 10 + offset))
    found = events_table(recorder.ops, run_id="r")
    return pa.concat_tables([found] * times)


def queues(count: int) -> pa.Table:
    """A message of each of so many queues."""
    recorder = Recorder()
    for key in range(count):
        recorder.send(0, key, 0, key=key)
    for key in range(count):
        recorder.poll(1, (0, key), key=key)
    return events_table(recorder.ops, run_id="r")


def named(found: pa.Table, name: str, column: Any) -> pa.Table:
    at = found.schema.get_field_index(name)
    changed = found.set_column(at, pa.field(name, column.type), column)
    return changed.replace_schema_metadata(EVENTS.metadata)


def flipped(path: Path) -> None:
    """One bit of the last row group's texts."""
    chunk = pq.read_metadata(path).row_group(1).column(7)
    at = chunk.data_page_offset + chunk.total_compressed_size - 5
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def parts(path: Path) -> None:
    """The same as a folder of parts, the last rows in the first of them."""
    found = pq.read_table(path)
    path.unlink()
    path.mkdir()
    (path / "_SUCCESS").touch()
    half = len(found) // 2 + 1
    for number, rows in enumerate((found.slice(half), found.slice(0, half))):
        pq.write_table(rows, path / f"part-0000{number}.snappy.parquet", row_group_size=GROUP)


def doubled(path: Path) -> None:
    parts(path)
    shutil.copy(path / "part-00001.snappy.parquet", path / "copy.parquet")


CASES: dict[str, tuple[pa.Table, Callable[[Path], None] | None, int, str]] = {
    "no event": (table(0), None, 2, "unknown"),
    "one queue": (table(30), None, 0, "valid"),
    "many queues": (queues(2_000), None, 0, "valid"),
    "parts": (table(30), parts, 0, "valid"),
    "a part twice": (
        table(30), doubled, 254, "copy.parquet and part-00001.snappy.parquet both hold"),
    "no version": (table(30).replace_schema_metadata(None), None, 0, "valid"),
    "another order": (table(30).sort_by("f"), None, 0, "valid"),
    "rows twice": (table(10, times=2), None, 2, "another operation has index 0"),
    "a column is missing": (table(10).drop_columns(["ext"]), None, 254, "no column ['ext']"),
    "a number is a text": (
        named(table(10), "index", table(10)["f"]), None, 254, "index is string, not a number"),
    "another version": (
        table(10).replace_schema_metadata({"maxq.schema": "0"}), None, 254, "schema version '0'"),
    "a bit of a later row group": (table(10), flipped, 254, "rows 20 to 39"),
    "cut": (table(10), cut, 254, "odd.parquet: "),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_odd_table_is_said_to_be_so(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    found, damage, code, words = CASES[name]
    path = tmp_path / "odd.parquet"
    if found.schema.equals(EVENTS, check_metadata=True):
        with open_table(path) as writer:
            writer.write_table(found, row_group_size=GROUP)
    else:
        pq.write_table(found, path, row_group_size=GROUP)
    if damage is not None:
        damage(path)

    said = {}
    for engine in ("here", "spark"):
        arguments = ["check", str(path), "--workload", "queue", "-v", "--engine", engine]
        assert run_cli(arguments) == code, engine
        said[engine] = capsys.readouterr()
    assert words in said["spark"].out + said["spark"].err
    assert said["spark"].out == said["here"].out


@pytest.mark.parametrize("damage", [cut, doubled])
def test_what_precedes_damage_is_judged_alike(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "odd.parquet"
    pq.write_table(table(30), path, row_group_size=GROUP)
    if damage is cut:
        parts(path)
        cut(path / "part-00000.snappy.parquet")
    else:
        damage(path)
    said = []
    for engine in ("here", "spark"):
        words = ["check", str(path), "--workload", "queue", "-v", "--engine", engine]
        assert run_cli([*words, "--allow-truncated"]) == 2, engine
        said.append(capsys.readouterr())
    assert "since the history is damaged: " in " ".join(said[0].out.split())
    assert said[0] == said[1]


def test_runs_of_one_id_are_judged_each_for_itself(spark: Any, tmp_path: Path) -> None:
    tables = {}
    for name, found in {"good": table(10), "bad": table(10, times=2)}.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(found, path)
        tables[name] = Table(path, Request((Durability(),), Context()))

    judged = judge_on(spark, tables)

    assert judged["good"].results.valid is True
    assert judged["bad"].results.valid == "unknown"


class Ends:
    """What ends the process that unpickles it, as the system ends one for its memory."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (1,)


def test_a_worker_that_is_ended_is_one_sentence(spark: Any) -> None:
    ends: Any = Ends()
    with pytest.raises(SparkFailed) as failed, failures():
        each(spark, [(OfRun("r", Part((), (0,))), ends)], 1)

    assert re.fullmatch(
        "Spark: task 0 of stage [0-9]+ failed once: a worker ended in mid-task, as the system ends "
        "what takes too much memory: run fewer tasks at a time .*",
        str(failed.value),
    )


@pytest.mark.parametrize("debug", [False, True])
def test_a_command_whose_worker_is_ended_says_so(
    spark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    debug: bool,
) -> None:
    """Its task is named, that of the judging stage is a bucket; nothing of the JVM is shown unless
    that is asked for."""
    path = tmp_path / "odd.parquet"
    pq.write_table(table(30), path)
    words = ["check", str(path), "--workload", "queue", "--engine", "spark"]
    monkeypatch.setattr("maxq.spark_checkers.jobs._judged", lambda known, answers: os._exit(1))
    code = run_cli([*words, "--debug"] if debug else words)
    err = capsys.readouterr().err
    assert code == 255
    assert re.search(r"^error: Spark: task \d+ of stage \d+ failed once: a worker ended", err, re.M)
    assert ("Traceback" in err) is debug


def test_a_table_that_a_worker_does_not_see_is_named(spark: Any, tmp_path: Path) -> None:
    away = File(tmp_path / "away.parquet", (1,), 0, "r")

    with pytest.raises(HistoryError, match=r"of Spark has no .*away\.parquet: put the table where"):
        each(spark, [(OfRun("r", Part((away,), (0,))), surveyed)], 1)


@pytest.mark.parametrize("between", [0, 1, 3])
def test_an_interrupt_is_one_wherever_the_bridge_fails_at_it(between: int) -> None:
    error: BaseException = KeyboardInterrupt()
    for n in range(between):
        deeper, error = error, ConnectionError(n)
        error.__context__ = deeper
    last = ConnectionError("Answer from Java side is empty")
    last.__context__ = error

    with pytest.raises(KeyboardInterrupt), failures():
        raise last


class Screen(logging.Handler):
    """What would be shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.shown.append(record.getMessage())


def test_what_the_bridge_logs_is_kept_from_the_screen() -> None:
    """It raises that as well. Not by `caplog`, which listens to loggers that pass nothing on."""
    screen = Screen()
    logging.getLogger().addHandler(screen)
    try:
        with jvm._unlogged():
            logging.getLogger("py4j.clientserver").error("while shutting down connection")
            logging.getLogger("another").error("of another")
    finally:
        logging.getLogger().removeHandler(screen)
    assert screen.shown == ["of another"]
