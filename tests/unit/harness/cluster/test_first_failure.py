"""Why a node did not start: its first exception, in one line."""

import pytest

from maxq.harness.cluster.first_failure import first_failure

OOM = """\
10:00:00.123 WARN  NamesrvAbility - connect to n0 failed
org.apache.rocketmq.remoting.exception.RemotingConnectException: connect to n0 failed
\tat org.apache.rocketmq.Remoting.connect(Remoting.java:1)
Exception in thread "main" java.lang.OutOfMemoryError: Cannot reserve 1073741824 bytes of direct \
buffer memory (allocated: 8192, limit: 536870912)
\tat java.base/java.nio.Bits.reserveMemory(Bits.java:178)
"""
ROLE = """\
java.lang.IllegalArgumentException: No enum constant org.apache.rocketmq.BrokerRole.ASYNC_MASTR
\tat java.base/java.lang.Enum.valueOf(Enum.java:273)
"""


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", ""),
        ("The broker[b0] boot success", ""),
        ('{"trace": "broker.recovered"}', ""),
        (OOM, "java.lang.OutOfMemoryError: Cannot reserve 1073741824 bytes of direct buffer memory "
              "(allocated: 8192, limit: 536870912) (see transientStorePoolEnable, "
              "transientStorePoolSize, mappedFileSizeCommitLog)"),
        (ROLE, "java.lang.IllegalArgumentException: No enum constant "
               "org.apache.rocketmq.BrokerRole.ASYNC_MASTR (see brokerRole, flushDiskType)"),
        ("java.net.BindException: Address already in use\njava.lang.Error: later",
         "java.net.BindException: Address already in use (see listenPort, haListenPort, "
         "fastListenPort)"),
        ("Caused by: java.io.EOFException\n\tat x", "java.io.EOFException"),
    ],
)  # fmt: skip
def test_the_reason_is_its_class_its_message_and_the_key(log: str, said: str) -> None:
    assert first_failure(log) == said
