"""Every crash point of every flow: is the cluster whole again after each?

Run as ``python -m benchmarks.crash_points``, or with ``--flow truncation`` for one, or with
``--mode pair`` or ``--mode container`` for those of brokers without controllers. A flow is run once
to number what its victim does (`maxq.harness.experiments.crash_points`); then once for each crash.
Prints, for each flow, its points and crashes and what came of them; for each that left something
broken, what, and the command that repeats it. Exit code: 1 if any did, else 0.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator

import click

from maxq.harness.experiments.crash_points.container_flows import CONTAINER_FLOWS
from maxq.harness.experiments.crash_points.flows import FLOWS, Outcome, perform, record
from maxq.harness.experiments.crash_points.pair_flows import PAIR_FLOWS
from maxq.harness.run.process import workers
from maxq.harness.simulation.crash_points import Crash, crashes

DRAWS = {"controllers": 4, "pair": 1, "container": 1}  # so that all of a mode takes minutes
BY_MODE = {"controllers": FLOWS, "pair": PAIR_FLOWS, "container": CONTAINER_FLOWS}
ALL = FLOWS | PAIR_FLOWS | CONTAINER_FLOWS
WIDTHS = {"whole": 8, "refused": 9, "held-back": 6, "broken": 8}  # of columns
SAID = ("refused", "broken")  # one by one; who is held back is only counted, but at one point
CHUNK = 16  # crashes that a process takes at a time


def perform_one(task: tuple[str, Crash]) -> Outcome:
    """Perform one crash; a function by name, so that another process can."""
    name, crash = task
    return perform(ALL[name], crash)


def outcomes(name: str, chosen: Iterable[Crash], *, processes: int) -> Iterator[Outcome]:
    """Perform crashes of a flow, in order."""
    tasks = [(name, crash) for crash in chosen]
    if processes == 1:
        yield from map(perform_one, tasks)
        return
    with workers.processes(processes) as pool:
        yield from pool.map(perform_one, tasks, chunksize=CHUNK)


@click.command()
@click.option("--flow", "flows", type=click.Choice(sorted(ALL)), multiple=True,
              help="one flow; by default all of the mode")  # fmt: skip
@click.option("--mode", type=click.Choice(sorted(BY_MODE)), default="controllers",
              show_default=True, help="whose flows")  # fmt: skip
@click.option("--point", type=int, help="only the crashes at the point of this number")
@click.option("--draws", type=int, help="how often chance is asked; by default 4, of pairs 1")
@click.option("--processes", default=2, show_default=True)
def main(
    flows: tuple[str, ...], mode: str, point: int | None, draws: int | None, processes: int
) -> None:
    """Crash at every point and print what came of it."""
    draws = draws or DRAWS[mode]
    begun = time.monotonic()
    table: Counter[str] = Counter()
    click.echo(
        f"{'flow':26}{'points':>8}{'crashes':>9}{'whole':>8}{'refused':>9}{'held':>6}{'broken':>8}"
    )
    for name in flows or tuple(BY_MODE[mode]):
        points = record(ALL[name])
        chosen = [c for c in crashes(points, draws=draws) if point in (None, c.point.number)]
        counts: Counter[str] = Counter()
        for outcome in outcomes(name, chosen, processes=processes):
            counts[outcome.verdict] += 1
            if outcome.verdict in SAID or (point is not None and outcome.verdict != "whole"):
                click.echo(f"{name}: {outcome.verdict}: {outcome.crash}: {outcome.why}")
                click.echo(f"    repeat: python -m benchmarks.crash_points --flow {name} "
                           f"--point {outcome.crash.point.number} --draws {draws}")  # fmt: skip
        click.echo(f"{name:26}{len(points):8}{len(chosen):9}" + "".join(
            f"{counts[verdict]:{width}}" for verdict, width in WIDTHS.items()
        ))  # fmt: skip
        table += counts
        table.update(points=len(points), crashes=len(chosen))
    click.echo(f"{table['points']} points, {table['crashes']} crashes in "
               f"{time.monotonic() - begun:.0f} s, chance asked {draws} times at each")  # fmt: skip
    sys.exit(1 if table["broken"] else 0)


if __name__ == "__main__":
    main()
