"""A standalone cluster of Spark on the loopback: a master and workers, as long as a block lasts."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from maxq.spark_checkers.masters import LOOPBACK

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
UP_S = 120.0
END_S = 20.0
LOOK_S = 0.1


@contextmanager
def standalone(workers: int, *, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """Start a cluster that nobody else uses.

    Args:
        workers: how many.
        cores: of each.
        memory: that each gives to executors, such as 3g.

    Yields:
        Its master, as `--master` takes it.

    Raises:
        RuntimeError: it does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="maxq-spark-") as name, ExitStack() as stack:
        folder = Path(name)
        at = ("--host", LOOPBACK, "--port", "0", "--webui-port", "0")
        log = _started(stack, folder, "master", [MASTER, *at])
        url = _said(log, rf"Starting Spark master at (spark://{LOOPBACK}:\d+)")
        logs = []
        for number in range(workers):
            own = ("--cores", str(cores), "--memory", memory, "--work-dir", name)
            logs.append(_started(stack, folder, f"worker-{number}", [WORKER, *at, *own, url]))
        for log in logs:
            _said(log, "(Successfully registered) with master")
        yield url


def _started(stack: ExitStack, folder: Path, name: str, command: Sequence[str]) -> Path:
    """Start a process of Spark, which ends with the stack; the file that has what it says."""
    home = Path(str(pyspark.__file__)).parent
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("SPARK_", "PYSPARK_"))}
    own = {"SPARK_HOME": str(home), "SPARK_CONF_DIR": os.devnull, "SPARK_LOCAL_IP": LOOPBACK}
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**kept, **own},
            start_new_session=True,
        )
    stack.callback(_end, process)
    return log


def _said(log: Path, pattern: str) -> str:
    """Wait until a process says something; what is said in the pattern's group."""
    until = time.monotonic() + UP_S
    while (found := re.search(pattern, log.read_text())) is None:
        if time.monotonic() > until:
            raise RuntimeError(f"Spark does not come up: {log.read_text()[-2000:]}")
        time.sleep(LOOK_S)
    return found[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it; a worker ends its executors."""
    for number, wait_s in ((signal.SIGTERM, END_S), (signal.SIGKILL, END_S)):
        os.killpg(process.pid, number)
        try:
            process.wait(wait_s)
            return
        except subprocess.TimeoutExpired:
            continue
