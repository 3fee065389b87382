"""``maxq check``, which holds no history, says of a stored run what is said of one in memory."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from directed import schedule_of

from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.checkers.judgement.runner import check_all
from maxq.harness.cli.main import run_cli
from maxq.harness.run import piecewise, rejudge, stored_run
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.options import Options
from maxq.histories.lines.whole_table import read_parquet
from maxq.histories.op import HistoryError
from maxq.histories.parquet import encode_parquet
from maxq.histories.store import JOURNAL, PARQUET, PARTS, REPORT

SECONDS_NS = 1_000_000_000


@pytest.mark.parametrize("mutant", ["", "ack_before_write"])
def test_a_run_is_judged_alike(tmp_path: Path, mutant: str) -> None:
    options = Options(
        environment="simulated",
        seed=3,
        workload=("queue", "lock", "registration"),
        nemesis=("kill",),
        time_limit_ns=12 * SECONDS_NS,
        mutant=mutant,
    )
    path = run_test(options, tmp_path, quiet=True).stored.path
    local = stored_run.judge_stored(path).with_counterexamples().with_report()
    page = (path / REPORT).read_bytes()
    judged = _by_columns(path).with_counterexamples().with_report()
    assert judged.results == local.results
    assert judged.results.valid is (not mutant)
    assert list(judged.recoveries) == list(local.recoveries)
    held = judged.with_all_operations(allow_truncated=False).stored.history
    assert held.ops == local.stored.history.ops
    assert (path / REPORT).read_bytes() == page
    assert bool(judged.counterexamples) is bool(mutant)
    _each_is_invalid_alone(path, judged.counterexamples, tmp_path / "small")


def test_offsets_of_pairs_are_judged_alike(tmp_path: Path) -> None:
    script = schedule_of("whole_table_replaced")
    options = options_for(script, mutant="whole_table_replaced")
    path = run_test(options, tmp_path, quiet=True, context=RunContext(script=script)).stored.path
    local = stored_run.judge_stored(path).results
    assert local.claims["P5"].status == "broken"
    assert _by_columns(path).results == local


def test_returns_of_masters_are_counted_alike(tmp_path: Path) -> None:
    """Of offsets that a slave took for its master, a count goes through every commit."""
    script = schedule_of("empty_group_goes_online")
    path = run_test(
        options_for(script), tmp_path, quiet=True, context=RunContext(script=script)
    ).stored.path
    local = stored_run.judge_stored(path).results
    assert local.counts["failovers:returned-offsets"] == 1
    assert _by_columns(path).results == local


def _each_is_invalid_alone(path: Path, found: Sequence[Counterexample], folder: Path) -> None:
    assert run_cli(["check", str(path), "--minimal", str(folder)]) == (1 if found else 0)
    for number, each in enumerate(found, start=1):
        small = folder / f"{number}-{each.anomaly.name}"
        assert each.length <= 20
        assert run_cli(["check", str(small)]) == 1
        assert stored_run.judge_stored(small).results.claims[each.anomaly.claim].status == "broken"
    assert folder.exists() is bool(found)
    again = run_cli(["check", str(path), "--minimal", str(folder)])
    assert again == (254 if found else 0)  # what is there is not written over


def _by_columns(path: Path, *, allow_truncated: bool = False) -> Judged:
    return piecewise.judge_run(path, piecewise.by_columns, allow_truncated=allow_truncated)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = Options(environment="simulated", seed=3, time_limit_ns=8 * SECONDS_NS)
    return run_test(options, tmp_path_factory.mktemp("runs"), quiet=True).stored.path


def _copy(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "run"))


def test_a_journal_that_was_changed_is_not_believed(short: Path, tmp_path: Path) -> None:
    run = _copy(short, tmp_path)
    journal = run / JOURNAL
    journal.write_bytes(journal.read_bytes().replace(b'"type":"ok"', b'"type":"no"', 1))
    with pytest.raises(HistoryError, match="line"):
        _by_columns(run)
    assert 0 < _by_columns(run, allow_truncated=True).stored.report.count < _count(short)


def test_a_table_of_another_run_is_not_believed(short: Path, tmp_path: Path) -> None:
    run = _copy(short, tmp_path)
    ops = read_parquet(run / PARQUET)[:-2]
    (run / PARQUET).write_bytes(encode_parquet(ops, run_id="another"))
    assert _by_columns(run).stored.report.count == _count(short)


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_table_that_is_damaged_is_not_needed(short: Path, tmp_path: Path, kept: float) -> None:
    run = _copy(short, tmp_path)
    data = (run / PARQUET).read_bytes()
    (run / PARQUET).write_bytes(data[: int(kept * len(data))])
    assert _by_columns(run).results == _by_columns(short).results


def test_a_page_of_a_table_that_is_damaged_is_not_needed(short: Path, tmp_path: Path) -> None:
    run = _copy(short, tmp_path)
    data = bytearray((run / PARQUET).read_bytes())
    data[len(data) // 3] ^= 0xFF
    (run / PARQUET).write_bytes(data)
    assert _by_columns(run).results == _by_columns(short).results


@pytest.mark.parametrize("order", ["index", "f"])
@pytest.mark.parametrize("journal", [True, False])
def test_a_run_s_table_may_be_in_parts(
    short: Path, tmp_path: Path, order: str, journal: bool
) -> None:
    run = _copy(short, tmp_path)
    table = pq.read_table(run / PARQUET).sort_by(order)
    (run / PARQUET).unlink()
    (run / PARTS).mkdir()
    for number, begin in enumerate((1000, 0)):
        rows = table.slice(begin, 1000 if begin == 0 else None)
        pq.write_table(rows, run / PARTS / f"part-{number}.parquet")
    if not journal:
        (run / JOURNAL).unlink()
    local = stored_run.judge_stored(run)
    assert _by_columns(run).results == local.results == _by_columns(short).results
    assert local.stored.report.count == _count(short)


def _count(run: Path) -> int:
    return len(read_parquet(run / PARQUET))


def test_a_table_alone_is_judged_alike(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = short / PARQUET
    history = rejudge.open_file(table).history
    local = check_all(history, rejudge.checkers_for(["queue"]), rejudge.CONTEXT)
    assert run_cli(["check", str(table), "--workload", "queue", "--json"]) == local.exit_code
    said = msgspec.json.decode(capsys.readouterr().out)["verdicts"]
    assert said == msgspec.json.decode(msgspec.json.encode(local.to_json()))["verdicts"]
