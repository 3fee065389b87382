"""What Spark says of a failure, in one sentence. The messages are Spark 4.3's own, cut."""

import pytest

from maxq.spark_checkers.sentences import FEWER, GONE, MORE, PYTHON, in_a_sentence, of_a_start

CALL = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
ABORTED = f"{CALL}: org.apache.spark.SparkException: Job aborted due to stage failure: "
IN_JAVA = "\n\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:692)\n"
LOST = ("Task {0} in stage {1}.0 failed {2} times, most recent failure: Lost task {0}.3 in stage "
        "{1}.0 (TID 9) ({3}): ")  # fmt: skip
CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider"
FULL = "java.io.IOException: No space left on device"
NO_PYTHON = 'java.io.IOException: Cannot run program "/no/python": error=2, No such file'
OTHER = "org.apache.spark.SparkException: Could not do it.\nNever mind."
RAISED = (
    f"{CALL}: org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was "
    "thrown from the Python worker: Traceback (most recent call last):\n"
    '  File "/x/pyspark/worker.py", line 4327, in invoke_udf\n    run()\n    ^^^\n{}\n SQLSTATE: 1'
)
ENDED = f"a worker ended in mid-task, as the system ends what takes too much memory: {FEWER}"
DISK = ("the disk is full where Spark shuffles (TMPDIR, of a cluster spark.local.dir): "
        "free some of it, or name a larger one")  # fmt: skip
JOBS = {
    ABORTED + LOST.format(3, 5, 4, "10.0.0.7 executor 2") + CRASHED:
        f"Spark: task 3 of stage 5 failed 4 times, last on 10.0.0.7: {ENDED}",
    ABORTED + LOST.format(3, 5, 1, "localhost executor driver") + CRASHED:
        f"Spark: task 3 of stage 5 failed once: {ENDED}",
    ABORTED + LOST.format(0, 2, 1, "localhost executor driver") + FULL:
        f"Spark: task 0 of stage 2 failed once: {DISK}",
    ABORTED + LOST.format(0, 0, 4, "127.0.0.1 executor 1") + NO_PYTHON:
        "Spark: task 0 of stage 0 failed 4 times, last on 127.0.0.1: "
        f"there is no Python /no/python: {PYTHON}",
    ABORTED + OTHER: f"Spark: Could not do it{MORE}",
    RAISED.format("ModuleNotFoundError: No module named 'msgspec'"):
        f"Spark: the Python of a worker has no msgspec: {PYTHON}",
    RAISED.format("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 4 GiB"):
        f"Spark: no memory was left: {FEWER}",
    RAISED.format("ValueError: x\ny"): f"Spark: a task raised ValueError: x{MORE}",
    RAISED.format(
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
        "worker has different version: 3.12 than that in driver: 3.11, PySpark cannot run with"
    ): f"Spark: the Python of a worker is 3.12, and of this process 3.11: {PYTHON}",
}  # fmt: skip


@pytest.mark.parametrize("message", JOBS)
def test_a_failed_job_is_said_without_the_trace_of_a_jvm(message: str) -> None:
    assert in_a_sentence(message + IN_JAVA) == JOBS[message]


@pytest.mark.parametrize(
    "message", ["[Errno 111] Connection refused", "Answer from Java side is empty", ""]
)
def test_a_jvm_that_is_gone_is_said_to_be_so(message: str) -> None:
    assert in_a_sentence(message) == f"Spark: {GONE}"


JAVA = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: "
STARTS = {
    ("", "/x/bin/spark-class: line 97: /x/bin/java: cannot execute: required file not found\n"):
        "/x/bin/spark-class: line 97: /x/bin/java: cannot execute: required file not found",
    ("", 'WARN Utils: Set SPARK_LOCAL_IP\nException in thread "main" org.apache.spark.'
         "SparkException: When running with master 'yarn' either HADOOP_CONF_DIR or "
         f"YARN_CONF_DIR must be set in the environment.{IN_JAVA}"):
        "When running with master 'yarn' either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in "
        "the environment",
    ("", 'Exception in thread "main" java.lang.UnsupportedClassVersionError: org/apache/spark/'
         f"launcher/Main has been compiled by a more recent version{IN_JAVA}"):
        "Java is too old: Spark needs 17 or later; set JAVA_HOME",
    (f"{JAVA}io.fabric8.kubernetes.client.KubernetesClientException: An error has occurred."
     f"{IN_JAVA}Caused by: java.net.ConnectException: Connection refused{IN_JAVA}", ""):
        "KubernetesClientException: An error has occurred (ConnectException: Connection refused)",
    (f"{JAVA}java.io.FileNotFoundException: File file:/no/events does not exist{IN_JAVA}", ""):
        "FileNotFoundException: File file:/no/events does not exist",
    ("", ""): "it ended without a word",
}  # fmt: skip


@pytest.mark.parametrize(("message", "written"), STARTS)
def test_a_session_that_does_not_start_says_why(message: str, written: str) -> None:
    why = STARTS[message, written]
    why += "" if "too old" in why else MORE
    assert of_a_start(message, written, "yarn") == f"Spark does not start with --master yarn: {why}"
