"""Our broker set beside Apache RocketMQ's, on one machine in one run.

Run as ``python -m benchmarks.beside_java``. One cluster after the other, never both at once, each
of 3 controllers, a name server and a set of 3 replicas in environment `local`, P-SAFE, `fast`
timing: what `benchmarks.replication` measures, by the same client with the same frames, phases and
settings. Before the phases the most senders send for half a minute, so that the JVM has compiled
what it runs; ours does the same, in the same order. A ratio is of figures of one run.

``--mode pair``: a name server, a master and its slave, P-SYNC; and how long a fail-over took.

RocketMQ's JVMs get what `maxq test` gives them but for one flag, which keeps the second compiler
from running and is good for a quick start only; ``--quick-start`` leaves it in. Heap, collector,
size of log files and log level are the harness's: RocketMQ on a big machine of its own, with its
own scripts, is another thing, and no figure of it is claimed. Linux, a JVM and Maven.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from benchmarks.pair_failover import FailOver
from benchmarks.replication import PAIR, SETTINGS, Measured, Watched, WatchedTarget, run
from benchmarks.simulation import best, real
from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.contracts.target import Node, Settings
from maxq.harness.targets.rocketmq.releases import Version, parse
from maxq.harness.targets.rocketmq.target import RocketMQTarget

FIRST_S = 30.0
RATE_WANTED = {"controllers": 0.25, "pair": 0.5}  # of Java's, with any number of senders
IDLE = 0.3  # CPUs
FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"
HEADER = (
    "| Senders | Ours: sends/s | p50 ms | p99 ms | CPU µs "
    "| Java: sends/s | p50 ms | p99 ms | CPU µs | Rate: ours to Java | p50: ours to Java |"
)
RULE = "|---" * 11 + "|"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """What one cluster did. `calls`: loopback calls a second beside it, the machine's own speed."""

    name: str
    calls: float
    start_s: float
    rates: tuple[Measured, ...]
    failed_over: FailOver | None = None


class WatchedJava(RocketMQTarget):
    """Notes when the first process starts; by default with both compilers of the JVM."""

    def __init__(self, version: Version, *, quick_start: bool) -> None:
        super().__init__(version)
        self._left_out = () if quick_start else (FIRST_COMPILER_ONLY,)
        self.begun = 0.0

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        self.begun = self.begun or time.perf_counter()
        words = super().argv(node, settings, config_path)
        return [word for word in words if word not in self._left_out]


def side(target: Watched, *, first_s: float, settings: Settings = SETTINGS) -> Side:
    """Measure one cluster, alone."""
    before = best(real)
    with tempfile.TemporaryDirectory(prefix="maxq-beside-") as folder:
        ran = asyncio.run(run(Path(folder).resolve(), target, first_s=first_s, settings=settings))
    calls = max(before, best(real))
    return Side(name=target.name, calls=calls, start_s=ran.start_s, rates=tuple(ran.rates),
                failed_over=ran.failed_over)  # fmt: skip


def others(measured: Side) -> float:
    """How many CPUs all other processes had, in the phase in which they had most."""
    return max(m.others for m in measured.rates)


def row(ours: Measured, java: Measured) -> str:
    """A line of the table."""
    cells = [f"{ours.senders}"]
    for m in (ours, java):
        cells += [f"{m.rate:,.0f}", f"{m.p50_ms:.2f}", f"{m.p99_ms:.1f}"]
        cells += [f"{sum(m.cpu_us.values()):.0f}"]
    cells += [f"{ours.rate / java.rate:.2f}", f"{ours.p50_ms / java.p50_ms:.2f}"]
    return f"| {' | '.join(cells)} |"


def missed(ours: Sequence[Measured], java: Sequence[Measured], wanted: float) -> list[str]:
    """Which goals were not reached: that part of Java's rate, and a lower p50 for one sender."""
    pairs = list(zip(ours, java, strict=True))
    found = [
        f"senders {o.senders}: {o.rate / j.rate:.3f} of Java's rate, {wanted} wanted"
        for o, j in pairs
        if o.rate < wanted * j.rate
    ]
    return found + [
        f"senders 1: p50 {o.p50_ms:.2f} ms, Java's is {j.p50_ms:.2f} ms"
        for o, j in pairs
        if o.senders == 1 and o.p50_ms >= j.p50_ms
    ]


def report(ours: Side, java: Side, wanted: float) -> str:
    """The figures as Markdown, and what they are worth."""
    lines = [
        f"{s.name}: {s.calls:,.0f} loopback calls/s, other processes had up to {others(s):.1f} CPUs"
        f", {s.start_s:.1f} s to the first acknowledged send, "
        f"{sum(m.refused for m in s.rates)} refused"
        for s in (ours, java)
    ]
    lines += [HEADER, RULE, *map(row, ours.rates, java.rates)]
    lines += [s.failed_over.line(s.name) for s in (ours, java) if s.failed_over]
    lines += [f"missed: {m}" for m in missed(ours.rates, java.rates, wanted) or ["nothing"]]
    if max(others(ours), others(java)) > IDLE:
        lines += [f"not idle: ratios mean nothing where other processes have over {IDLE} CPUs"]
    return "\n".join(lines)


@click.command()
@click.option("--target", default="rocketmq:5.5.0", show_default=True, help="beside what")
@click.option("--mode", type=click.Choice(sorted(RATE_WANTED)), default="controllers",
              show_default=True)  # fmt: skip
@click.option("--first", "first_s", default=FIRST_S, show_default=True,
              help="seconds of load before anything is measured")  # fmt: skip
@click.option("--java-first", is_flag=True, help="measure RocketMQ's cluster before ours")
@click.option("--quick-start", is_flag=True, help="the JVM's first compiler only, as `maxq test`")
def main(target: str, mode: str, first_s: float, java_first: bool, quick_start: bool) -> None:
    """Measure both and print."""
    theirs = WatchedJava(parse(target), quick_start=quick_start)
    try:
        theirs.prepare()
    except EnvironmentUnavailable as why:
        click.echo(why)
        sys.exit(2)
    order: list[Watched] = [WatchedTarget(), theirs]
    settings = PAIR if mode == "pair" else SETTINGS
    sides = [
        side(t, first_s=first_s, settings=settings)
        for t in (reversed(order) if java_first else order)
    ]
    ours, java = reversed(sides) if java_first else sides
    click.echo(report(ours, java, RATE_WANTED[mode]))


if __name__ == "__main__":
    main()
