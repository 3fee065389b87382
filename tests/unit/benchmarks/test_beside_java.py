"""The table of our broker set beside RocketMQ's, and what it says of the goals."""

from pathlib import Path

import msgspec

from benchmarks.beside_java import (
    FIRST_COMPILER_ONLY,
    HEADER,
    Side,
    WatchedJava,
    missed,
    report,
    row,
)
from benchmarks.replication import SETTINGS, Measured
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import plan
from maxq.harness.targets.rocketmq.releases import parse


def measured(senders: int, *, rate: float, p50_ms: float) -> Measured:
    return Measured(
        senders=senders, rate=rate, p50_ms=p50_ms, p99_ms=9.0, refused=0, cpu_us={"master": 200.0}
    )


def test_a_row_has_the_ratios_of_both() -> None:
    ours = measured(16, rate=3_000, p50_ms=4.0)
    java = measured(16, rate=4_000, p50_ms=2.0)

    got = row(ours, java)

    assert got == "| 16 | 3,000 | 4.00 | 9.0 | 200 | 4,000 | 2.00 | 9.0 | 200 | 0.75 | 2.00 |"
    assert got.count("|") == HEADER.count("|")


def test_goals_are_a_quarter_of_the_rate_and_the_lower_latency_of_one_sender() -> None:
    java = [measured(1, rate=400, p50_ms=2.0), measured(64, rate=8_000, p50_ms=5.0)]

    assert not missed(
        [measured(1, rate=100, p50_ms=1.9), measured(64, rate=2_000, p50_ms=9)], java, 0.25
    )
    assert missed(
        [measured(1, rate=99, p50_ms=2.0), measured(64, rate=1_900, p50_ms=9)], java, 0.25
    ) == [
        "senders 1: 0.247 of Java's rate, 0.25 wanted",
        "senders 64: 0.237 of Java's rate, 0.25 wanted",
        "senders 1: p50 2.00 ms, Java's is 2.00 ms",
    ]


def test_a_busy_machine_is_told() -> None:
    def side(others: float) -> Side:
        rate = msgspec.structs.replace(measured(1, rate=400, p50_ms=2.0), others=others)
        return Side(name="any", calls=3e4, start_s=1.0, rates=(rate,))

    assert "not idle" in report(side(0.1), side(1.5), 0.25)
    assert "not idle" not in report(side(0.1), side(0.2), 0.25)


def test_the_jvm_has_both_compilers_unless_asked_otherwise() -> None:
    broker = next(n for n in plan(SETTINGS.topology) if n.role is Role.BROKER)

    def words(*, quick_start: bool) -> list[str]:
        target = WatchedJava(parse("rocketmq:5.5.0"), quick_start=quick_start)
        target._paths = dict.fromkeys(Role, Path("/jars"))
        return list(target.argv(broker, SETTINGS, "/data/node.conf"))

    assert FIRST_COMPILER_ONLY in words(quick_start=True)
    assert words(quick_start=False) == [
        word for word in words(quick_start=True) if word != FIRST_COMPILER_ONLY
    ]
