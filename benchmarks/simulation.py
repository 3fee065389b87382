"""How much of a cluster's life the simulator performs in a second, and what that second goes to.

Run as ``python -m benchmarks.simulation``. Three controllers, a name server and a set of three
brokers under the workload queue, without faults, the history recorded, at several rates of
operations. Each rate is run with every step recorded, for the counts, and then without, for the
time: the best of a few. Equal seeds give equal steps, so all are the same run. Times are CPU time
of this process, so that neighbours on the machine matter less.

The calibration says what the figures are worth on another machine: remote calls a second in the
simulator beside real sockets, the same code over `maxq.reference.rpc`, ten callers on one
connection. ``--pair``: two broker sets of a master and a slave each, without controllers.
"""

import asyncio
import cProfile
import io
import pstats
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from maxq.harness.run.execute import run_in_world
from maxq.harness.run.run_context import RunContext
from maxq.harness.schedule.options import Options
from maxq.harness.simulation.steps import Steps
from maxq.harness.simulation.world import SimHost, World
from maxq.histories.store import JOURNAL, RunStore
from maxq.reference import rpc
from maxq.reference.wire.frame import Frame

RATES = (0.0, 50.0, 200.0)
AT_REST = 1e-6  # operations a second: the workload cannot do without any
CALLS, CALLERS, ROUNDS, PORT = 20_000, 10, 3, 20_999
TOP = 12  # costs that are shown


# Two broker sets of a master and a slave each, without controllers.
PAIR: dict[str, Any] = {"controllers": 0, "broker_sets": 2, "replicas": 2, "profile": "P-SYNC"}


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One rate: of `virtual_s` seconds of the cluster's life, performed in `cpu_s`."""

    rate: float
    virtual_s: float
    cpu_s: float
    steps: int
    messages: int  # segments that arrived somewhere
    ops: int  # events of the history, observers' too

    def row(self) -> str:
        """A line of the table."""
        virtual_s = self.virtual_s
        return (
            f"{self.rate:6.0f} {virtual_s / self.cpu_s:15.1f} {self.messages / virtual_s:12.0f}"
            f" {self.steps / virtual_s:9.0f} {1e6 * self.cpu_s / self.steps:11.2f}"
            f" {self.ops / virtual_s:10.0f}"
        )


HEADER = "  op/s virtual s/CPU s   messages/s   steps/s   us a step   events/s"


def perform(
    rate: float, seconds: float, context: RunContext, *, pair: bool = False
) -> tuple[bytes, float]:
    """Run the cluster once; returns the history, and how long it took (CPU s)."""
    options = Options(
        environment="simulated",
        seed=1,
        workload=("queue",),
        nemesis=("none",),
        time_limit_ns=round(seconds * 1e9),
        rate=max(rate, AT_REST),
    )
    if pair:
        options = msgspec.structs.replace(options, **PAIR)
    with tempfile.TemporaryDirectory(prefix="maxq-simulation-") as folder:
        run = RunStore(Path(folder)).create("simulation", datetime.now(UTC))
        begun = time.process_time()
        run_in_world(options, run, context, lambda: True)
        return (run.path / JOURNAL).read_bytes(), time.process_time() - begun


def measured(rate: float, seconds: float, *, pair: bool = False) -> Measured:
    """Run at a rate: counted, and timed."""
    trace = io.BytesIO()
    steps = Steps(trace)
    history, _ = perform(rate, seconds, RunContext(steps=steps), pair=pair)
    steps.digest()
    cpu_s = min(perform(rate, seconds, RunContext(), pair=pair)[1] for _ in range(ROUNDS))
    lines = trace.getvalue().splitlines()
    return Measured(
        rate=rate,
        virtual_s=int(lines[-1].split()[0]) / 1e9,
        cpu_s=cpu_s,
        steps=steps.count,
        messages=sum(line.endswith(b"SimTransport.arrived") for line in lines),
        ops=history.count(b"\n"),
    )


def costs(rate: float, seconds: float, *, pair: bool = False) -> list[str]:
    """What the time goes to: share of all, calls, and where."""
    profile = cProfile.Profile()
    profile.runcall(perform, rate, seconds, RunContext(), pair=pair)
    found = pstats.Stats(profile).stats  # type: ignore[attr-defined] # it has them
    total = sum(own for _, _, own, _, _ in found.values())
    most = sorted(found.items(), key=lambda item: -item[1][2])[:TOP]
    return [
        f"{100 * own / total:6.1f} % {calls:9}  {Path(where).name}:{line} {name}"
        for (where, line, name), (_, calls, own, _, _) in most
    ]


async def exchange(address: str) -> float:
    """Serve and call on one address; returns calls a second of the process."""
    async with asyncio.TaskGroup() as group:
        server = await rpc.serve(address, PORT, lambda r, c: r.answer(0, body=r.body), group=group)
        client = await rpc.connect(f"{address}:{PORT}", group=group)

        async def caller() -> None:
            for _ in range(CALLS // CALLERS):
                await client.call(Frame(code=10, ext={"topic": "T"}, body=b"x" * 100), timeout_s=30)

        begun = time.perf_counter()
        async with asyncio.TaskGroup() as all_callers:
            for _ in range(CALLERS):
                all_callers.create_task(caller())
        elapsed = time.perf_counter() - begun
        client.close()
        server.close()
    return CALLS / elapsed


def simulated() -> float:
    """Calls a second in the simulator."""
    world = World(1)

    def main(host: SimHost) -> Awaitable[float]:
        return exchange(host.addresses()[0])

    try:
        return world.run(world.add_machine("a", "198.18.0.16"), main)  # type: ignore[arg-type]
    finally:
        world.close()


def real() -> float:
    """Calls a second over loopback sockets."""
    return asyncio.run(exchange("127.0.0.1"))


def best(measure: Callable[[], float]) -> float:
    """The best of a few rounds: what disturbs only slows down."""
    return max(measure() for _ in range(ROUNDS))


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="virtual seconds of load")
@click.option("--pair", is_flag=True, help="two pairs of brokers without controllers")
@click.option("--costs/--no-costs", "shows_costs", default=True, help="profile each rate as well")
def main(seconds: float, pair: bool, shows_costs: bool) -> None:
    """Measure and print."""
    click.echo(HEADER)
    for rate in RATES:
        click.echo(measured(rate, seconds, pair=pair).row())
    for rate in RATES if shows_costs else ():
        click.echo(f"\nat {rate:.0f} op/s: share of the time, calls, where")
        click.echo("\n".join(costs(rate, seconds, pair=pair)))
    in_simulator, over_sockets = best(simulated), best(real)
    click.echo(f"\nremote calls a second: simulator {in_simulator:,.0f}, loopback "
               f"{over_sockets:,.0f}, ratio {in_simulator / over_sockets:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
