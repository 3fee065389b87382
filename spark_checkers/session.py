"""A Spark context for checks: an embedded one of this process, or one on a cluster.

An embedded one is the same on every machine: JAVA_HOME says which Java, TMPDIR where it shuffles,
and what is meant for a cluster does not count. It stays on the loopback, has bounded memory and no
web page. With the master of a cluster the environment counts as it does for `spark-submit`, and the
code of the checks is sent to workers, whose Python needs msgspec, numpy and pyarrow.

How it is used: docs/spark.md.
"""

import importlib.util
import os
import platform
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from maxq.spark_checkers import jvm
from maxq.spark_checkers.jvm import SparkMissing
from maxq.spark_checkers.masters import (
    LOCAL,
    LOOPBACK,
    YARN,
    addresses,
    embedded,
    on_loopback,
    wrong,
)
from maxq.spark_checkers.sentences import NEEDED, PYTHON, in_a_sentence, of_a_start

MEMORY = "2g"
PACKAGES = ("checkers", "histories", "spark_checkers")
HERE = ("pyspark", "py4j")  # what this process needs
CONNECT_S = 3.0
TAKEN_S, BEGUN_S = 60.0, 180.0  # until a standalone master takes us, and a worker our first task
_RELEASE = "is it a master, and of the same release as pyspark here?"
_FREE = "has it one that is free, with the memory that is asked for?"


class SparkFailed(Exception):
    """A job came to no end, in one sentence."""


Hear = Callable[[str], None]
Conf = Mapping[str, str]  # of Spark, by its own names
NO_CONF: Conf = {}


def unheard(_: str) -> None:
    """Nobody wants to know."""


@contextmanager
def failures() -> Iterator[None]:
    """What Spark's driver raises within a block, as `SparkFailed`; also of a JVM that is gone.

    Raises:
        KeyboardInterrupt: the user's, also where the bridge failed at it and raised its own.
    """
    try:
        yield
    except Exception as error:
        _go_on_interrupting(error)
        of_bridge = type(error).__module__.partition(".")[0] == "py4j"  # which has no types
        if of_bridge or isinstance(error, ConnectionError):
            raise SparkFailed(in_a_sentence(str(error))) from error
        raise


def _go_on_interrupting(error: BaseException) -> None:
    """Py4j asks the JVM something more while an interrupt passes, and hides it if that fails."""
    while error.__context__ is not None:
        error = error.__context__
        if isinstance(error, KeyboardInterrupt):
            raise error


def tasks_of(context: Any) -> str:
    """How many tasks of the jobs that run are done; empty where none runs, or nobody can say."""
    with suppress(Exception):  # it is over, or the JVM is gone: whoever waits for it says so
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        done, every = (sum(getattr(s, n) for s in known) for n in ("numCompletedTasks", "numTasks"))
        return f"{done:,} of {every:,} tasks" if known else ""
    return ""


def missing() -> str:
    """Why no session can be made here; empty if one can."""
    absent = [name for name in HERE if importlib.util.find_spec(name) is None]
    if absent:
        cure = "pip install 'maxq[spark]', with the pins of constraints-spark.txt"
        return f"not installed: {', '.join(absent)}; {cure}"
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which("java", path=str(Path(home, "bin"))) is None:
        return f"JAVA_HOME is {home}, which has no bin/java: correct or unset it"
    if not home and shutil.which("java") is None:
        return "no java was found: install a Java runtime, 17 or later, or set JAVA_HOME"
    return ""


def _silent(master: str) -> str:
    """Why none of a cluster's standalone masters can be reached; empty if one can. Spark itself
    would go on trying."""
    refused = []
    for host, port in addresses(master):
        try:
            with socket.create_connection((host, port), timeout=CONNECT_S):
                return ""
        except OSError as error:
            refused.append(f"{host}:{port} ({error.strerror or error})")
    if not refused:
        return ""
    return f"no Spark master answers at {', '.join(refused)}: start one, or correct --master"


def need(master: str) -> None:
    """See that a session can be started, as far as that can be told without one.

    Raises:
        SparkMissing: it cannot.
    """
    if why := wrong(master) or missing() or _silent(master):
        raise SparkMissing(why)


@contextmanager
def spark_context(
    master: str = LOCAL, words: Hear = unheard, conf: Conf = NO_CONF
) -> Iterator[Any]:
    """A context for the length of a block; the one that is there already, if one is.

    Args:
        master: where tasks run; `LOCAL` is this machine.
        words: hears at the end what the JVM and the workers wrote.
        conf: what its configuration has beside, or instead of what it would have.

    Raises:
        SparkMissing: none can be started.
    """
    need(master)
    from pyspark import SparkContext

    if (running := SparkContext._active_spark_context) is not None:
        yield running
        return
    with ExitStack() as stack:
        stack.enter_context(jvm.environment(master))
        log = stack.enter_context(tempfile.TemporaryFile())
        stack.callback(lambda: words(_written(log)))
        try:
            context = _started(stack, {"spark.master": master, **settings(master), **conf}, log)
        except SparkMissing:
            raise
        except Exception as error:
            _go_on_interrupting(error)
            raise SparkMissing(of_a_start(str(error), _written(log), master)) from error
        yield context


def _started(stack: ExitStack, config: Conf, log: IO[bytes]) -> Any:
    """A context with a JVM of its own, which both end with the stack; its workers were seen.

    Raises:
        SparkMissing: a cluster does not answer, or its workers lack something.
    """
    master = config["spark.master"]
    door = stack.enter_context(jvm.gateway(config, log))
    with _within(TAKEN_S, f"{master} takes no application: {_RELEASE}", master, door):
        context = _context(stack, config, door)
    if not master.startswith("local[") and master != "local":
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="maxq-"))
        _send_code(context, Path(folder, "maxq_checks.zip"))  # workers fetch it as they begin
        with _within(BEGUN_S, f"no worker of {master} takes a task: {_FREE}", master, door):
            _see_workers(context)
    return context


@contextmanager
def submitted() -> Iterator[None]:
    """The context of a job that `spark-submit` runs here, for the length of a block; checks on
    Spark within it take that one.

    Raises:
        SparkMissing: this is no such job, or the workers lack something.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        raise SparkMissing(f"a job: run it by spark-submit {sys.argv[0]}")
    from pyspark import SparkContext

    with tempfile.TemporaryDirectory(prefix="maxq-") as folder, SparkContext() as context:
        context.setLogLevel("ERROR")
        _send_code(context, Path(folder, "maxq_checks.zip"))
        _see_workers(context)
        yield


@contextmanager
def _within(limit_s: float, what: str, master: str, door: Any) -> Iterator[None]:
    """A block that asks a standalone cluster: after a while its JVM is ended, and that is said.
    Others let applications wait for as long as they are busy.

    Raises:
        SparkMissing: the block took longer.
    """
    late = threading.Event()

    def give_up() -> None:
        late.set()
        jvm.kill(door.process)

    timer = threading.Timer(limit_s, give_up)
    if addresses(master):
        timer.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise SparkMissing(f"in {limit_s:.0f} s {what}") from error
        raise
    finally:
        timer.cancel()


def _context(stack: ExitStack, config: Mapping[str, str], door: Any) -> Any:
    """A context, until the stack ends. Signals and `sys.path` stay as they are."""
    from pyspark import SparkConf, SparkContext

    stack.callback(sys.path.__setitem__, slice(None), list(sys.path))
    heard = signal.getsignal(signal.SIGINT)
    context = SparkContext(conf=SparkConf().setAll(list(config.items())), gateway=door)
    stack.callback(_stop, context)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, heard)  # Spark's own asks the JVM amid whatever goes on
    return context


def _stop(context: Any) -> None:
    """Stop a context, also one of a JVM that is gone."""
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        context.stop()


def _see_workers(context: Any) -> None:
    """Have workers look at what they have.

    Raises:
        SparkMissing: one lacks what the checks need.
    """
    tasks = context.defaultParallelism
    found = context.parallelize(range(tasks), tasks).map(_lacking).collect()
    if lacking := sorted(set(filter(None, found))):
        raise SparkMissing(f"{lacking[0]}: {PYTHON}")


def _lacking(_: int) -> str:
    """What the Python of this worker lacks; empty: nothing."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    where = f"{sys.executable} of worker {platform.node()}"
    return f"{where} has no {', '.join(absent)}" if absent else ""


def _written(log: IO[bytes]) -> str:
    """What the JVM wrote so far, which goes on where it is."""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), size, 0).decode(errors="replace")


def settings(master: str) -> dict[str, str]:
    """The configuration of a session, beside what the environment says of a cluster."""
    config = {"spark.app.name": "maxq", "spark.log.level": "ERROR",
              "spark.ui.showConsoleProgress": "false"}  # fmt: skip
    if embedded(master):
        config |= {
            "spark.driver.memory": MEMORY,
            "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
            "spark.local.dir": tempfile.gettempdir(),
            "spark.ui.enabled": "false",
        }
    if master == YARN:
        config["spark.hadoop.yarn.resourcemanager.connect.max-wait.ms"] = "30000"  # not 15 min
    if on_loopback(master):
        config |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return config


def _send_code(context: Any, archive: Path) -> None:
    root = Path(__file__).parents[2]
    with zipfile.ZipFile(archive, "w") as out:
        out.write(root / "maxq" / "__init__.py", "maxq/__init__.py")
        for package in PACKAGES:
            for module in sorted((root / "maxq" / package).rglob("*.py")):
                out.write(module, module.relative_to(root))
    context.addPyFile(str(archive))
