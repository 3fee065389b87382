"""What Spark says of a job that failed, in one sentence."""

import pytest

from maxq.spark_checkers.session import in_a_sentence

CRASHED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 5.0 failed 4 times, most recent failure: Lost task 3.3 in stage 5.0 (TID 9) (127.0.0.1 executor driver): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:692)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)
"""  # noqa: E501
FULL = """: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, most recent failure: Lost task 0.0 in stage 2.0 (TID 2) (127.0.0.1 executor driver): java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.UnixFileDispatcherImpl.write0(Native Method)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (CRASHED, "Spark: task 3 of stage 5 failed 4 times: Python worker exited unexpectedly "
                  "(crashed) (a worker that the machine ends for its memory ends so)"),
        (FULL, "Spark: task 0 of stage 2 failed 1 times: IOException: No space left on device"),
        ("[Errno 111] Connection refused", "Spark: [Errno 111] Connection refused"),
        ("", "Spark: the session ended"),
    ],
)  # fmt: skip
def test_a_failure_is_a_sentence_without_the_trace_of_a_jvm(message: str, said: str) -> None:
    assert in_a_sentence(message) == said
