"""A Spark session for checks: an embedded one in this process, or one on a cluster.

Everything of an embedded session stays on this machine's loopback address, has bounded memory and
no web page. Python workers are this interpreter. A cluster's workers need Python with msgspec,
numpy and pyarrow; the code of the checks is sent to them.

How it is used: docs/spark.md.
"""

import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOCAL = "local[*]"
MEMORY = "2g"
PACKAGES = ("checkers", "histories", "spark_checkers")
NEEDED = ("pyspark",)
LOOPBACK = "127.0.0.1"


class SparkMissing(Exception):
    """What is not here, and what to do about it."""


class SparkFailed(Exception):
    """A job came to no end, in one sentence."""


@contextmanager
def failures() -> Iterator[None]:
    """What Spark's driver raises within a block, as `SparkFailed`; also of a JVM that is gone."""
    try:
        yield
    except Exception as error:
        of_bridge = type(error).__module__.partition(".")[0] == "py4j"  # which has no types
        if of_bridge or isinstance(error, ConnectionError):
            raise SparkFailed(in_a_sentence(str(error))) from error
        raise


_TASK = re.compile(r"Task (\d+) in stage (\d+)[.\d]* failed (\d+) times?")
_CAUSE = re.compile(r"\b(?:[a-z]+\.)+([A-Za-z]+(?:Error|Exception)): ")


def in_a_sentence(message: str) -> str:
    """What Spark says of a job that failed: which task of which stage, and the cause that it names
    last before the trace of the JVM."""
    task = _TASK.search(message)
    _, *causes = _CAUSE.split(message.partition("\n\tat ")[0])
    name, said = causes[-2:] if causes else ("", message)
    said = said.partition("\n")[0]
    why = f"{name}: {said}" if name not in ("", "SparkException") else said
    where = f"task {task[1]} of stage {task[2]} failed {task[3]} times: " if task else ""
    crashed = " (a worker that the machine ends for its memory ends so)" if "crashed" in why else ""
    return f"Spark: {where}{why.strip() or 'the session ended'}{crashed}"


def tasks_of(session: Any) -> str:
    """How many tasks of the jobs that run are done; empty where none runs."""
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    done, every = (sum(getattr(s, n) for s in known) for n in ("numCompletedTasks", "numTasks"))
    return f"{done:,} of {every:,} tasks" if known else ""


def missing() -> str:
    """Why no session can be made here; empty if one can."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        cure = "pip install 'maxq[spark]', with the pins of constraints-spark.txt"
        return f"not installed: {', '.join(absent)}; {cure}"
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else None
    if (java is None or not java.exists()) and shutil.which("java") is None:
        return "no java was found: install a Java runtime, 17 or later, or set JAVA_HOME"
    return ""


@contextmanager
def spark_session(master: str = LOCAL) -> Iterator[Any]:
    """A session for the length of a block; the one that is there already, if one is.

    Args:
        master: where tasks run; `LOCAL` is this process.

    Raises:
        SparkMissing: there is no pyspark or no Java here.
    """
    why = missing()
    if why:
        raise SparkMissing(why)
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    builder = SparkSession.builder.appName("maxq").master(master)
    for key, value in settings(master).items():
        builder = builder.config(key, value)
    if master.startswith("local"):
        # Spark reads these two from nowhere else.
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
        os.environ["PYSPARK_PYTHON"] = sys.executable
    session = builder.getOrCreate()
    try:
        with tempfile.TemporaryDirectory() as folder:  # workers fetch from it when they begin
            if not master.startswith("local["):
                _send_code(session, Path(folder, "maxq_checks.zip"))
            yield session
    finally:
        session.stop()


def settings(master: str) -> dict[str, str]:
    """The configuration of a session."""
    config = {
        "spark.driver.memory": MEMORY,
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        config |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return config


def _send_code(session: Any, archive: Path) -> None:
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(archive, "w") as out:
        out.write(root / "maxq" / "__init__.py", "maxq/__init__.py")
        for package in PACKAGES:
            for module in sorted((root / "maxq" / package).rglob("*.py")):
                out.write(module, module.relative_to(root))
    session.sparkContext.addPyFile(str(archive))
