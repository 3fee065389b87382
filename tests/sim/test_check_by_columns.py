"""``maxq check --engine columns`` says of a stored run what ``maxq check`` says."""

from pathlib import Path

import msgspec
import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.run import piecewise, stored_run
from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.options import Options

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
    local = stored_run.judge_stored(path)
    judged = piecewise.judge_run(path, piecewise.by_columns, allow_truncated=False)
    assert judged.results == local.results
    assert judged.results.valid is (not mutant)
    assert list(judged.recoveries) == list(local.recoveries)


def test_a_table_alone_is_judged_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(environment="simulated", seed=3, time_limit_ns=8 * SECONDS_NS)
    table = run_test(options, tmp_path, quiet=True).stored.path / "history.parquet"
    words = ["check", str(table), "--workload", "queue", "--json"]
    codes, said = [], []
    for engine in ("local", "columns"):
        capsys.readouterr()
        codes.append(run_cli([*words, "--engine", engine]))
        said.append(msgspec.json.decode(capsys.readouterr().out)["verdicts"])
    assert codes[0] == codes[1]
    assert said[0] == said[1]
