"""The JVM of Spark's driver: a process that this one starts, asks by py4j, and ends.

It ends with its standard input, so it never outlives this process, however that dies. It belongs to
no terminal: Control-C is this process's to answer. What it and the Python workers write goes to a
file, which has the cause of a failure; with nothing wrong nobody reads it.
"""

import logging
import os
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from maxq.spark_checkers.masters import LOOPBACK, embedded, on_loopback

FOR_CLUSTERS = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
SUBMIT = Path("bin", "spark-submit")
LOOK_S = 0.05
END_S = 10.0


class NotStarted(Exception):
    """The JVM ended as it started, and has written why."""


class SparkMissing(Exception):
    """What keeps a session from starting, and what to do about it."""


@contextmanager
def environment(master: str) -> Iterator[None]:
    """What tells Spark of this machine and of clusters, for the length of a block.

    For an embedded session nothing counts that is meant for a cluster, files of configuration
    included: they are looked for where none can be. A cluster's workers need the same Python.
    """
    before = dict(os.environ)
    mine = {"PYSPARK_PYTHON": sys.executable}
    if on_loopback(master):
        mine["SPARK_LOCAL_IP"] = LOOPBACK
    kept = before
    if embedded(master):
        kept = {name: v for name, v in before.items() if not name.startswith(FOR_CLUSTERS)}
        mine["SPARK_CONF_DIR"] = os.devnull
    _become(mine | kept)
    try:
        yield
    finally:
        _become(before)


def _become(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def home(variables: Mapping[str, str]) -> Path:
    """The folder of Spark: SPARK_HOME, else pyspark's own, or the distribution that it is of.

    Raises:
        SparkMissing: there is none.
    """
    import pyspark

    if named := variables.get("SPARK_HOME"):
        if Path(named, SUBMIT).exists():
            return Path(named)
        raise SparkMissing(f"SPARK_HOME is {named}, which has no {SUBMIT}: correct or unset it")
    own = Path(str(pyspark.__file__)).parent
    for folder in (own, own.parents[1]):
        if (folder / SUBMIT).exists():
            return folder
    raise SparkMissing(f"pyspark in {own} has no {SUBMIT}: install it again")


@contextmanager
def gateway(config: Mapping[str, str], log: IO[bytes]) -> Iterator[Any]:
    """Py4j's door to a JVM, for the length of a block. Its `process` may be killed.

    Args:
        config: Spark's, with which the JVM begins.
        log: takes what the JVM and its workers write.

    Raises:
        NotStarted: it ended before it could be asked.
        SparkMissing: there is none to start.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    with _unlogged(), tempfile.TemporaryDirectory(prefix="maxq-") as folder:
        answer = Path(folder, "gateway")
        process = _begun(config, answer, log)
        try:
            port, secret = _told(process, answer)
            os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
            door = launch_gateway()
            door.process = process
            yield door
            door.close()
        finally:
            SparkContext._gateway = SparkContext._jvm = None  # the next one has a JVM of its own
            _end(process)


@contextmanager
def _unlogged() -> Iterator[None]:
    """What py4j logs of failures is kept from the screen: it raises them as well."""

    def of_others(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    root, own, nowhere = logging.getLogger(), logging.getLogger("py4j"), logging.NullHandler()
    propagates = own.propagate
    root.addFilter(of_others)  # what its modules log by the root's own functions
    own.addHandler(nowhere)
    own.propagate = False
    try:
        yield
    finally:
        own.propagate = propagates
        own.removeHandler(nowhere)
        root.removeFilter(of_others)


def _begun(config: Mapping[str, str], answer: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """A JVM that will write to a file where it listens."""
    spark = home(os.environ)
    command = [str(spark / SUBMIT)]
    for key, value in config.items():
        command += ["--conf", f"{key}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    variables = {
        **os.environ,
        "SPARK_HOME": str(spark),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
    }
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        env=variables,
        start_new_session=True,
    )


def _told(process: subprocess.Popen[bytes], answer: Path) -> tuple[int, str]:
    """The port and the secret of a JVM, once it has said them."""
    while not answer.exists():
        if process.poll() is not None:
            raise NotStarted
        time.sleep(LOOK_S)
    data = answer.read_bytes()
    port, length = struct.unpack_from("!ii", data)
    return port, data[8 : 8 + length].decode()


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a JVM, or the script that starts it, now; its Python workers end with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a JVM: when its input is closed it removes its files, and goes."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        kill(process)
        process.wait()
