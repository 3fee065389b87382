"""``maxq spark``: a cluster that outlives the command, is found by others, and ends whole."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from run_folders import history, stored
from waiting import eventually

from maxq.harness.cli.clusters import spark_cluster
from maxq.harness.cli.main import run_cli
from maxq.spark_checkers import standalone
from maxq.spark_checkers.jvm import SparkMissing
from maxq.spark_checkers.session import missing

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.skipif(missing() != "", reason=missing()),
]
END_S = 30.0
Said = tuple[int, str]


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Said]]:
    """Runs a command, with a place of its own for what is up; ends it at last."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

    def run(*argv: object) -> Said:
        capsys.readouterr()
        code = run_cli([str(a) for a in argv])
        out, err = capsys.readouterr()
        return code, out + err

    yield run
    run("spark", "down")


def groups() -> list[int]:
    """The processes of the cluster that is up."""
    found = spark_cluster._up(spark_cluster._folder())
    return [] if found is None else [pid for pid, _ in found.processes.values()]


def submitted(job: Path, master: str) -> Said:
    """What a job says that `spark-submit` runs."""
    import pyspark

    submit = Path(str(pyspark.__file__)).parent / "bin" / "spark-submit"
    words = [str(submit), "--master", master, "--executor-memory", "450m", str(job)]
    alone = {n: v for n, v in os.environ.items() if not n.startswith("PYSPARK_")}
    environment = {**alone, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_job_that_nobody_submitted_says_so(told: Callable[..., Said], tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    assert told("export", stored(tmp_path / "runs", history()), "--spark-job", job)[0] == 0
    alone = {n: v for n, v in os.environ.items() if not n.startswith("PYSPARK_")}
    done = subprocess.run([sys.executable, str(job)], env=alone, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"error: a job: run it by spark-submit {job}\n")
    assert "--format is needed, or --spark-job" in told("export", tmp_path / "runs")[1]


def test_a_cluster_is_up_until_it_is_ended(told: Callable[..., Said], tmp_path: Path) -> None:
    assert told("spark", "status")[0] == 1
    code, said = told("spark", "up", "--workers", "1", "--worker-memory", "1g")
    assert code == 0, said
    [master] = {word for word in said.split() if word.startswith("spark://") and word[-1] != ":"}
    assert told("spark", "status")[0] == 0
    assert told("spark", "up")[0] == 254, "there is one already"

    run = stored(tmp_path / "runs", history(5, lost=True))
    words = ("check", run, "--engine", "spark", "--master", master)
    code, said = told(*words, "--executor-memory", "450m", "--conf", "spark.cores.max=1")
    assert (code, "1 of 5 acknowledged messages" in said) == (1, True), said

    job = tmp_path / "job.py"
    assert told("export", run, "--spark-job", job)[0] == 0
    code, said = submitted(job, master)
    assert (code, "1 of 5 acknowledged messages" in said) == (1, True), said

    own = groups()
    os.killpg(own[-1], signal.SIGKILL)
    assert eventually(lambda: "worker-0   has ended" in told("spark", "status")[1], END_S)
    assert told("spark", "status")[0] == 1
    assert f"{master} has ended" in told("spark", "down")[1]
    assert eventually(lambda: not any(standalone._lives(pid) for pid in own), END_S)
    assert told("spark", "down") == (0, "no cluster was up\n")


def test_what_does_not_come_up_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(SparkMissing, match="worker-0 of Spark does not come up: "):
        standalone.start(tmp_path, workers=1, cores=1, memory="no size")
    lines = [_line(process) for process in Path("/proc").iterdir() if process.name.isdigit()]
    assert not [line for line in lines if str(tmp_path) in line]


def _line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--executor-memory", "lots"], "is no size such as 3g or 1500m"),
        (["--conf", "cores=2"], "is no setting; write spark.KEY=VALUE"),
        (["--conf", "spark.master=local"], "spark.master is what --master says"),
        (["--conf", "spark.cores.max=1"], "Spark is configured with --engine spark"),
    ],
)
def test_a_wrong_setting_is_refused(
    told: Callable[..., Said], tmp_path: Path, words: list[str], why: str
) -> None:
    code, said = told("check", stored(tmp_path / "runs", history()), *words)
    assert (code, why in said) == (254, True), said
