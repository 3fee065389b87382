"""How fast a replicated broker set acknowledges: ``python -m benchmarks.replication``.

Brings up 3 controllers, a name server and one broker set of 3 replicas in environment `local`, with
profile P-SAFE and `fast` timing, and measures what a producer sees: the time from the start of the
first process to the first acknowledged send, then sends a second and latency at 1 KiB with 1, 16
and 64 senders. Each sender has a connection of its own and waits for its answer before it sends
again; all of them are tasks of this process and send frames made beforehand.

Machines differ and are shared, so rates are also given as ratios to a calibration of the same run:
the loopback calls a second of `benchmarks.simulation`. What bounds a rate is shown by the CPU time
that each role spent for one send. ``--profile FOLDER`` runs the brokers under cProfile and keeps
what it found there, one file a node; the figures of such a run mean nothing. Linux only.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from benchmarks.pair_failover import FailOver, fail_over
from benchmarks.simulation import best, real
from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Node, Settings, Target, Topology
from maxq.harness.environments.local import LocalEnvironment
from maxq.harness.targets.reference import ReferenceTarget
from maxq.reference import rpc
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import SendRequest, to_short_ext

SENDERS = (1, 16, 64)
BODY = b"x" * 1024
TOPIC, QUEUES = "bench", 8
WARM_UP_S = 1.0
MEASURE_S = 8.0
SEND_TIMEOUT_S = 6.0
FIRST_ACK_S_MAX = 60.0
RETRY_S = 0.01  # of the first send, until there is a master with enough replicas
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
SETTINGS = Settings(
    topology=Topology(controllers=3, namesrvs=1, broker_sets=1, replicas=3),
    profile="P-SAFE",
    timing="fast",
)
PAIR = Settings(
    topology=Topology(controllers=0, namesrvs=1, broker_sets=1, replicas=2),
    profile="P-SYNC",
    timing="fast",
)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One rate. CPU times are microseconds for one acknowledged send; `others`: how many CPUs all
    other processes of the machine had meanwhile, on average."""

    senders: int
    rate: float
    p50_ms: float
    p99_ms: float
    refused: int
    cpu_us: dict[str, float]
    others: float = 0.0


class Watched(Target, Protocol):
    """A target that notes when it starts its first process."""

    begun: float  # of `time.perf_counter`


class WatchedTarget(ReferenceTarget):
    """Notes when the first process starts; with a folder, runs brokers under cProfile."""

    def __init__(self, profiles: Path | None = None) -> None:
        super().__init__()
        self._profiles = profiles
        self.begun = 0.0

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        self.begun = self.begun or time.perf_counter()
        python, *rest = super().argv(node, settings, config_path)
        if node.role is not Role.BROKER or self._profiles is None:
            return [python, *rest]
        return [python, "-m", "cProfile", "-o", str(self._profiles / f"{node.name}.prof"), *rest]


def request(queue_id: int) -> Frame:
    """A send of 1 KiB."""
    header = SendRequest(
        topic=TOPIC,
        producer_group="bench",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=int(time.time() * 1000),
        flag=0,
        properties=props.encode({props.WAIT: "true"}).decode(),
    )
    return Frame(code=RequestCode.SEND_MESSAGE_V2, ext=to_short_ext(header), body=BODY)


async def first_acknowledged(cluster: Deployment, group: asyncio.TaskGroup) -> str:
    """Send to every broker until one acknowledges; returns its address."""
    async with asyncio.timeout(FIRST_ACK_S_MAX):
        while True:
            for node in cluster.by_role(Role.BROKER):
                address = cluster.address(node.name)
                connection = None
                try:
                    connection = await rpc.connect(address, group=group, dial=cluster.dial)
                    answer = await connection.call(request(0), timeout_s=SEND_TIMEOUT_S)
                    if answer.code == ResponseCode.SUCCESS:
                        return address
                except OSError:
                    continue
                finally:
                    if connection is not None:
                        connection.close()
            await asyncio.sleep(RETRY_S)


async def measure(
    cluster: Deployment,
    master: str,
    nodes: Mapping[str, str],
    senders: int,
    group: asyncio.TaskGroup,
    measure_s: float = MEASURE_S,
) -> Measured:
    """Send from `senders` connections for a while."""
    clock = time.perf_counter
    connections = [
        await rpc.connect(master, group=group, dial=cluster.dial) for _ in range(senders)
    ]
    took_ns: list[int] = []
    refused: Counter[int] = Counter()
    begin = clock() + WARM_UP_S
    end = begin + measure_s

    async def sender(number: int, connection: rpc.Connection) -> None:
        frame = request(number % QUEUES)
        while (sent := clock()) < end:
            answer = await connection.call(frame, timeout_s=SEND_TIMEOUT_S)
            if sent >= begin:
                if answer.code == ResponseCode.SUCCESS:
                    took_ns.append(round((clock() - sent) * 1e9))
                else:
                    refused[answer.code] += 1

    async with asyncio.TaskGroup() as all_senders:
        for number, connection in enumerate(connections):
            all_senders.create_task(sender(number, connection))
        await asyncio.sleep(WARM_UP_S)
        before, busy_before = cpu_s(nodes), busy_s()
        await asyncio.sleep(measure_s)
        after, busy_after = cpu_s(nodes), busy_s()
    for connection in connections:
        connection.close()
    if len(took_ns) < 2:
        raise RuntimeError(f"no acknowledged sends with {senders} senders: {dict(refused)}")
    own_s = sum(after.values()) - sum(before.values())
    hundredths = statistics.quantiles(took_ns, n=100)
    return Measured(
        senders=senders,
        rate=len(took_ns) / measure_s,
        p50_ms=hundredths[49] / 1e6,
        p99_ms=hundredths[98] / 1e6,
        refused=refused.total(),
        cpu_us={role: (after[role] - before[role]) * 1e6 / len(took_ns) for role in after},
        others=max(0.0, busy_after - busy_before - own_s) / measure_s,
    )


def cpu_s(nodes: Mapping[str, str]) -> dict[str, float]:
    """CPU time used so far by this process and by the nodes, which are known by their configuration
    files: in Python by role, and in the kernel for all together."""
    own = os.times()
    used = {"senders": own.user, "master": 0.0, "slaves": 0.0, "others": 0.0}
    used["kernel"] = own.system
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            stat = (process / "stat").read_text()
        except OSError:
            continue  # no process, or ended since
        role = next((nodes[word] for word in command if word in nodes), None)
        if role is not None:
            user, system = stat.rpartition(")")[2].split()[11:13]
            used[role] += int(user) / TICKS_A_SECOND
            used["kernel"] += int(system) / TICKS_A_SECOND
    return used


def busy_s() -> float:
    """CPU time that was used so far on this machine, or taken from it by its host."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / TICKS_A_SECOND


def roles(cluster: Deployment, folder: Path, master: str) -> dict[str, str]:
    """What each node does, by its configuration file."""
    found = {}
    for node in cluster.nodes:
        role = "others"
        if node.role is Role.BROKER:
            role = "master" if cluster.address(node.name) == master else "slaves"
        found[str(folder / node.name / "node.conf")] = role
    return found


class Ran(NamedTuple):
    """Seconds from the start of the first process to the first acknowledged send, the rates, and of
    a pair how long a fail-over took."""

    start_s: float
    rates: list[Measured]
    failed_over: FailOver | None


async def run(
    folder: Path, target: Watched, *, first_s: float = 0.0, settings: Settings = SETTINGS
) -> Ran:
    """Measure one cluster.

    With `first_s` the most senders send for so long (s) before anything is measured: a JVM
    compiles meanwhile what it runs.
    """
    environment = LocalEnvironment(folder)
    cluster = Deployment(environment, target, settings)
    failed_over = None
    try:
        async with asyncio.TaskGroup() as group:
            await cluster.up()
            await cluster.create_topics({TOPIC: QUEUES})
            master = await first_acknowledged(cluster, group)
            start_s = time.perf_counter() - target.begun
            nodes = roles(cluster, folder, master)
            if first_s:
                await measure(cluster, master, nodes, SENDERS[-1], group, first_s)
            rates = [await measure(cluster, master, nodes, n, group) for n in SENDERS]
            if not settings.topology.controllers:
                failed_over = await fail_over(cluster, group, TOPIC, request(0), target.name)
        await cluster.stop_all()
    finally:
        await environment.down()
    return Ran(start_s, rates, failed_over)


def report(calls: float, start_s: float, rates: list[Measured]) -> None:
    """Print the figures."""
    print(f"calibration {calls:,.0f} loopback calls/s (one process, benchmarks.simulation)")
    print(f"start to first acknowledged send {start_s:.2f} s")
    print("senders   sends/s   of calibration   p50 ms   p99 ms   refused   CPU us a send")
    for m in rates:
        cpu = ", ".join(f"{role} {us:.0f}" for role, us in m.cpu_us.items())
        print(
            f"{m.senders:7} {m.rate:9,.0f} {m.rate / calls:16.3f} {m.p50_ms:8.2f} {m.p99_ms:8.2f} "
            f"{m.refused:9}   {cpu}; {sum(m.cpu_us.values()):.0f} in all; others had "
            f"{m.others:.1f} CPUs"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replication", description=__doc__)
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="run brokers under cProfile")
    args = parser.parse_args()
    profiles = None if args.profile is None else args.profile.resolve()
    if profiles is not None:
        profiles.mkdir(parents=True, exist_ok=True)
    before = best(real)
    with tempfile.TemporaryDirectory() as folder:
        start_s, rates, _ = asyncio.run(run(Path(folder).resolve(), WatchedTarget(profiles)))
    report(max(before, best(real)), start_s, rates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
