"""`maxq check --engine spark` with a session of its own: what it depends on, and how it ends."""

import os
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from history_recorder import Recorder
from waiting import eventually

from benchmarks.kill_remains import below, command_of
from maxq.histories.parquet import encode_parquet
from maxq.spark_checkers.session import missing
from maxq.spark_checkers.standalone import standalone

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(missing() != "", reason=missing()),
]
MESSAGES = 3_000
END_S = 60.0
OF_A_CLUSTER = {
    "SPARK_HOME": "/opt/spark-2.4",
    "PYSPARK_SUBMIT_ARGS": "--packages x:y:1 pyspark-shell",
    "PYSPARK_PYTHON": "/no/python",
    "PYSPARK_DRIVER_PYTHON": "/no/python",
    "SPARK_LOCAL_DIRS": "/no/folder",
    "SPARK_SUBMIT_OPTS": "-Xmx1k",
    "HADOOP_CONF_DIR": "/no/hadoop",
}


@pytest.fixture(scope="module", autouse=True)
def short_lived() -> Iterator[None]:
    """JVMs here live for seconds: the better compiler takes a third of their time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Messages of four queues, one of which is lost."""
    recorder = Recorder()
    recorder.send(0, 0, 0)
    for offset in range(MESSAGES):
        recorder.send(0, 10 + offset, offset, key=1 + offset % 4)
    recorder.poll(1, (0, 10), (8, 18), end={1: 12})
    path = tmp_path_factory.mktemp("table") / "history.parquet"
    path.write_bytes(encode_parquet(recorder.ops, run_id="r"))
    return path


def command(table: Path, *more: str) -> list[str]:
    words = ["check", str(table), "--workload", "queue", *more]
    return [sys.executable, "-m", "maxq.harness.cli.main", *words]


def told(
    table: Path,
    *more: str,
    environment: Mapping[str, str] = os.environ,
    before: tuple[str, ...] = (),
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    done = subprocess.run(
        [*before, *command(table, *more)], env={**environment}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def expected(table: Path) -> tuple[int, str, str]:
    """What is said without Spark."""
    return told(table)


SPARK = ("--engine", "spark", "--master", "local[2]")


@pytest.mark.campaign
def test_what_is_meant_for_a_cluster_changes_nothing(
    table: Path, tmp_path: Path, expected: tuple[int, str, str]
) -> None:
    """And nothing of Spark is on the screen."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master yarn\nspark.eventLog.enabled true\nspark.eventLog.dir /no/events\n"
    )
    foreign = {**os.environ, **OF_A_CLUSTER, "SPARK_CONF_DIR": str(tmp_path)}

    assert expected[0] == 1
    assert told(table, *SPARK, environment=foreign) == expected


@pytest.mark.campaign
def test_a_full_disk_is_one_sentence(table: Path, tmp_path: Path) -> None:
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "--"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine has no user namespaces")
    script = 'mount -t tmpfs -o size=48k none "$TMPDIR" && exec "$@"'
    small = {**os.environ, "TMPDIR": str(tmp_path)}

    code, out, err = told(
        table, *SPARK, environment=small, before=(*unshare, "sh", "-c", script, "-")
    )

    assert (code, out) == (255, "")
    assert "failed once: the disk is full where Spark shuffles (TMPDIR" in err
    assert "\tat " not in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_behind(table: Path, tmp_path: Path, number: signal.Signals) -> None:
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command(table, *SPARK), stdout=said, stderr=said)
        assert eventually(
            lambda: "pyspark.daemon" in " ".join(map(command_of, below({process.pid}))), END_S
        )
        there = below({process.pid})
        process.send_signal(number)
        code = process.wait(END_S)

    assert code == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert eventually(lambda: not [pid for pid in there if Path(f"/proc/{pid}").exists()], END_S)
    if number == signal.SIGINT:
        *before, last = (tmp_path / "said").read_text().splitlines()
        assert last == "interrupted by SIGINT; what was recorded can be judged by `maxq check`"
        assert not [line for line in before if "Interrupt" in line or "Traceback" in line]


@pytest.mark.campaign
def test_a_cluster_says_the_same_and_a_worker_what_it_lacks(
    table: Path, tmp_path: Path, expected: tuple[int, str, str]
) -> None:
    bare = tmp_path / "bare"
    venv.create(bare)
    lacking = {**os.environ, "PYSPARK_PYTHON": str(bare / "bin" / "python")}

    with standalone(2, memory="1g") as url:
        on_cluster = ("--engine", "spark", "--master", url)
        same = told(table, *on_cluster)
        code, out, err = told(table, *on_cluster, environment=lacking)

    assert same == expected
    assert (code, out) == (254, "")
    assert "has no msgspec, numpy, pyarrow: set PYSPARK_PYTHON to a Python there" in err
    assert "Traceback" not in err
