"""Brokers that share processes beside brokers alone: ``python -m benchmarks.containers``.

Two pairs (P-SYNC, `fast` timing, environment `local`) are brought up twice, with a process for each
of their four brokers, and in two crossed containers; ours first, then RocketMQ's. Of each cluster
is measured what its brokers hold (PSS) and how long after the start of the first one the cluster
was whole, and then the sends a second of 16 senders to each master, by the client and with the
frames of `benchmarks.replication`. A ratio is that of containers to brokers alone, of one run.

Then a container of ours with two masters: one sender at one of them, quiet and while a process of
its own floods the other one, in turns. The goal is a p99 of at most three times that of the quiet
turns. What is started ends with this process. Linux, and for RocketMQ a JVM and Maven.
"""

import asyncio
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import click
from msgspec.structs import replace

from benchmarks.kill_remains import below, command_of, pss_mib
from benchmarks.replication import MEASURE_S, QUEUES, TICKS_A_SECOND, TOPIC, measure, request
from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.environment import EnvironmentUnavailable, Role
from maxq.harness.contracts.layouts import CROSSED_2, LayoutKind
from maxq.harness.contracts.target import Settings, Target, Topology
from maxq.harness.environments.local import LocalEnvironment
from maxq.harness.environments.process_life import started
from maxq.harness.run.process.workers import end_with_parent
from maxq.harness.targets.reference import ReferenceTarget
from maxq.harness.targets.rocketmq.releases import parse
from maxq.harness.targets.rocketmq.target import RocketMQTarget
from maxq.reference import rpc
from maxq.reference.bounds import Bounds
from maxq.reference.wire.codes import ResponseCode

SENDERS = 16  # at each master
FIRST_S = 10.0  # of load before anything is measured: a JVM compiles what it runs
TURNS, TURN_S, SETTLED_S = 5, 4.0, 0.5
APART_S = 0.005  # between an answer and the next send at the quiet broker
FLOODERS, FLOOD_TIMEOUT_S = 64, 600.0  # the flood is held in each quiet turn
P99_MAX = 3.0  # times that of the quiet turns
TWO_SETS = Topology(controllers=0, namesrvs=1, broker_sets=2, replicas=2)
PAIRS, CROSSED = (
    Settings(topology=replace(TWO_SETS, layout=layout), profile="P-SYNC")
    for layout in (None, CROSSED_2)
)
TOGETHER = LayoutKind(
    name="together", about="two masters in one container", sets=2, replicas=1,
    container_of=lambda broker_set, replica: "k0",
)  # fmt: skip
MASTERS = Settings(topology=replace(TWO_SETS, replicas=1, layout=TOGETHER), profile="P-ASYNC")
HEADER = "| Brokers | four alone | in two containers | ratio |\n|---|---:|---:|---:|"


class Side(NamedTuple):
    """What one cluster was like: MiB of its brokers, seconds until it was whole, sends a second."""

    mib: float
    ready_s: float
    rate: float


class Beside(NamedTuple):
    """What sends took (ms) in turns without and with a flood, and its own sends a second."""

    quiet: Sequence[float]
    flooded: Sequence[float]
    flood_rate: float


def p99(took_ms: Sequence[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(took_ms, n=100)[98]


@asynccontextmanager
async def running(target: Target, settings: Settings) -> AsyncIterator[Deployment]:
    """A cluster that is whole; it ends with the block, however that ends."""
    with tempfile.TemporaryDirectory(prefix="maxq-containers-") as folder:
        environment = LocalEnvironment(Path(folder))
        cluster = Deployment(environment, target, settings)
        try:
            await cluster.up()
            yield cluster
            await cluster.stop_all()
        finally:
            await environment.down()


def processes_of(cluster: Deployment) -> list[int]:
    """The processes of the brokers, which are known by their files."""
    names = {node.process for node in cluster.by_role(Role.BROKER)}
    files = {cluster.processes.config_path(name) for name in names}
    return [pid for pid in below({os.getpid()}) if files & {*command_of(pid).split()}]


async def side(target: Target, settings: Settings, first_s: float) -> Side:
    """Measure one cluster of pairs."""
    async with running(target, settings) as cluster:
        now_s, pids = time.clock_gettime(time.CLOCK_BOOTTIME), processes_of(cluster)
        ready_s = now_s - min(started(pid) or 0 for pid in pids) / TICKS_A_SECOND
        mib = sum(map(pss_mib, pids))
        await cluster.create_topics({TOPIC: QUEUES})
        masters = [cluster.address("b0-0"), cluster.address("b1-0")]
        await rate(cluster, masters, first_s)
        return Side(mib, ready_s, await rate(cluster, masters, MEASURE_S))


async def rate(cluster: Deployment, masters: Sequence[str], seconds: float) -> float:
    """Sends a second to all of these masters at once."""
    async with asyncio.TaskGroup() as g:
        tasks = [g.create_task(measure(cluster, m, {}, SENDERS, g, seconds)) for m in masters]
    return sum(task.result().rate for task in tasks)


async def beside_a_flood() -> Beside:
    """Measure sends at a broker in turns, without and with a flood at its neighbour."""
    found: dict[bool, list[float]] = {False: [], True: []}
    async with running(ReferenceTarget(), MASTERS) as cluster, asyncio.TaskGroup() as group:
        await cluster.create_topics({TOPIC: QUEUES})
        quiet = await rpc.connect(cluster.address("b0-0"), group=group, dial=cluster.dial)
        flood = await flooding(cluster, cluster.address("b1-0"))
        try:
            await asyncio.sleep(TURN_S)
            for turn in range(2 * TURNS):
                flooded = turn % 2 == 1
                flood.send_signal(signal.SIGCONT if flooded else signal.SIGSTOP)
                await asyncio.sleep(SETTLED_S)
                found[flooded] += await sends(quiet, TURN_S)
            count, _ = await flood.communicate(b"")  # it ends with its input
        finally:
            if flood.returncode is None:
                flood.kill()
            await flood.wait()
            quiet.close()
    flood_s = TURN_S + TURNS * (SETTLED_S + TURN_S)
    return Beside(found[False], found[True], int(count) / flood_s)


async def sends(connection: rpc.Connection, seconds: float) -> list[float]:
    """What each send takes (ms), one after the other."""
    took, clock = [], time.perf_counter
    end = clock() + seconds
    while (sent := clock()) < end:
        answer = await connection.call(request(0), timeout_s=FLOOD_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            raise RuntimeError(f"a send was answered {answer.code}: {answer.remark}")
        took.append((clock() - sent) * 1e3)
        await asyncio.sleep(APART_S)
    return took


async def flooding(cluster: Deployment, broker: str) -> Process:
    """A process that floods a broker by connections that are made here."""
    host, port = rpc.split_address(broker)
    sockets: list[socket.socket] = []
    for _ in range(FLOODERS):
        transport, _ = await cluster.dial(asyncio.Protocol, host, port)
        sockets.append(transport.get_extra_info("socket").dup())
        transport.close()
    fds = [sock.fileno() for sock in sockets]
    words = [sys.executable, "-m", "benchmarks.containers", *(f"--flood={fd}" for fd in fds)]
    child = await asyncio.create_subprocess_exec(
        *words, pass_fds=fds, stdin=PIPE, stdout=PIPE, start_new_session=True
    )
    for sock in sockets:
        sock.close()
    return child


async def flooded(fds: Sequence[int]) -> int:
    """Send by all of these sockets until the input ends; how many were acknowledged."""
    count, loop = 0, asyncio.get_running_loop()

    async def sender(fd: int) -> None:
        nonlocal count
        connection = rpc.Connection(senders, rpc.refuse, Bounds())
        await loop.create_connection(lambda: connection, sock=socket.socket(fileno=fd))
        while True:
            answer = await connection.call(request(fd % QUEUES), timeout_s=FLOOD_TIMEOUT_S)
            count += answer.code == ResponseCode.SUCCESS

    async with asyncio.TaskGroup() as senders:
        tasks = [senders.create_task(sender(fd)) for fd in fds]
        await loop.run_in_executor(None, sys.stdin.buffer.read)
        for task in tasks:
            task.cancel()
    return count


def rows(name: str, alone: Side, contained: Side) -> Iterator[str]:
    """The table's lines of one implementation."""
    for what, digits, a, c in (
        ("memory (PSS), MiB", 0, alone.mib, contained.mib),
        ("start until whole, s", 1, alone.ready_s, contained.ready_s),
        ("sends a second", 0, alone.rate, contained.rate),
    ):
        yield f"| {name}: {what} | {a:,.{digits}f} | {c:,.{digits}f} | {c / a:.2f} |"


def said(beside: Beside) -> str:
    """What a flood does to a neighbour, in a sentence, and whether that is too much."""
    quiet, busy = p99(beside.quiet), p99(beside.flooded)
    text = (f"p99 of sends: {quiet:.1f} ms beside a quiet neighbour, {busy:.1f} ms beside one that "
            f"takes {beside.flood_rate:,.0f} sends/s: {busy / quiet:.1f} times")  # fmt: skip
    return text + (f"\nmissed: at most {P99_MAX:g} times" if busy > P99_MAX * quiet else "")


async def both(target: str, first_s: float) -> None:
    """Measure and print, figure by figure."""
    ours, theirs = ReferenceTarget(), RocketMQTarget(parse(target), contained=True)
    await asyncio.to_thread(theirs.prepare)
    click.echo(HEADER)
    for each in (ours, theirs):
        sides = [await side(each, settings, first_s) for settings in (PAIRS, CROSSED)]
        click.echo("\n".join(rows(each.name, *sides)))
    click.echo("\n" + said(await beside_a_flood()))


@click.command()
@click.option("--target", default="rocketmq:5.5.0", show_default=True, help="beside what")
@click.option("--first", "first_s", default=FIRST_S, show_default=True,
              help="seconds of load before sends are counted")  # fmt: skip
@click.option("--flood", "fds", type=int, multiple=True, hidden=True)
def main(target: str, first_s: float, fds: tuple[int, ...]) -> None:
    """Measure and print."""
    if fds:
        end_with_parent()
        click.echo(asyncio.run(flooded(fds)))
        return
    try:
        asyncio.run(both(target, first_s))
    except EnvironmentUnavailable as why:
        click.echo(why)
        sys.exit(2)


if __name__ == "__main__":
    main()
