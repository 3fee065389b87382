"""Where Spark's tasks may run, as `--master` says it."""

import pytest

from maxq.spark_checkers.masters import addresses, embedded, on_loopback, wrong

HERE = (
    "local", "local[1]", "local[*]", "local[4,2]", "local[*, 3]", "local-cluster[2,1,1024]",
)  # fmt: skip
ELSEWHERE = (
    "spark://a:7077", "spark://a.b-c.test:1,10.0.0.2:65535", "spark://[::1]:7077", "yarn",
    "k8s://https://10.0.0.1:6443", "k8s://kube.test",
)  # fmt: skip
NONE = (
    "", "local[x]", "local[0]", "local[]", "local[1", "locale", "local-cluster[2,1]", "spark://",
    "spark://a", "spark://a:0", "spark://a:65536", "spark://a:1,", "spark://a:1;b:2", "k8s://",
    "yarn-client", "mesos://a:1", "http://a:1", "local[1]\n",
)  # fmt: skip


@pytest.mark.parametrize("master", HERE + ELSEWHERE)
def test_a_master_of_spark_is_taken(master: str) -> None:
    assert wrong(master) == ""
    assert embedded(master) == (master in HERE)


@pytest.mark.parametrize("master", NONE)
def test_what_is_no_master_is_said_with_what_is(master: str) -> None:
    assert wrong(master).startswith(f"{master!r} is no master of Spark; write local[N]")


def test_every_standalone_master_has_an_address() -> None:
    assert addresses("spark://a:1,[::1]:22") == [("a", 1), ("::1", 22)]
    assert [*addresses("yarn"), *addresses("local"), *addresses("k8s://a:1")] == []


def test_what_stays_on_this_machine_is_known() -> None:
    assert on_loopback("local[2]")
    assert on_loopback("spark://localhost:1,127.0.0.1:2")
    assert not on_loopback("spark://127.0.0.1:1,a:2")
    assert not on_loopback("yarn")
