"""Kills of a run's processes, at moments of every phase: what of the run is left behind?

Run as ``python -m benchmarks.kills --kills 200 --jobs 2 --journal kills.jsonl``. Each kill is a
short real run (`benchmarks.kill_runs`) whose harness, or one of its helpers, is ended by SIGKILL
(`benchmarks.kill_moments`). 15 s later nothing of it may be left (`benchmarks.kill_remains`), or
`maxq clean` must remove it. A run whose helper was killed must end by itself, with a verdict or a
named error. Prints a table of the moments. Exit code 1: something was left after clean, a run did
not end by itself, or the engine has bridges of no network that it had not before.

As root it also kills runs of an ordinary user (nobody), who must be able to read this folder.
"""

import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click

from benchmarks.kill_moments import DOCKER, HARNESS, LOCAL, PHASES, USER, VICTIMS, Moment, moments
from benchmarks.kill_remains import bridges_of_no_network
from benchmarks.kill_runs import Killed, kill, world_of
from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.environments.disks import node_disk
from maxq.harness.environments.engine.client import connect
from maxq.harness.environments.local import check
from maxq.harness.experiments.journal import append, resumed

VICTIM_NAMES = tuple(dict.fromkeys([HARNESS, *itertools.chain(*VICTIMS.values())]))
HEAD = ("#", "environment", "killed", "phase", "s into the run", "the run", "left after 15 s",
        "left after clean")  # fmt: skip


def worlds_here(asked: Sequence[str]) -> dict[str, str]:
    """Of the worlds asked for, why each cannot be had here; empty for those that can."""
    found = {}
    for name in asked:
        try:
            if name == DOCKER:
                connect().close()
            else:
                check()
            if name == LOCAL and os.geteuid() != 0:
                raise LookupError("it is that of root here, and this user is not: see local-user")
            world_of(name)
            found[name] = ""
        except (EnvironmentUnavailable, LookupError) as error:
            found[name] = str(error)
    return found


def row(done: Killed) -> str:
    """A kill as a row of the table."""
    moment = done.moment
    world = moment.world + (", disks" if moment.disks else "")
    cells = (moment.number, world, moment.victim, done.phase, f"{done.at_s:.1f}", done.ended,
             ", ".join(done.left) or "nothing", ", ".join(done.stayed) or "nothing")  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def summary(found: Sequence[Killed], missed: int) -> Iterator[str]:
    """Kills by world and phase, and what was left."""
    yield f"| | {' | '.join(PHASES)} |"
    yield "|---|" + "---|" * len(PHASES)
    by = Counter((done.moment.world, done.phase) for done in found)
    for world in dict.fromkeys(done.moment.world for done in found):
        yield f"| {world} | {' | '.join(str(by[world, phase]) for phase in PHASES)} |"
    late = [done for done in found if done.left]
    stayed = sum(bool(done.stayed) for done in late)
    yield f"{len(found)} kills; {missed} moments not met"
    yield f"{len(late)} left something for more than 15 s, {stayed} of them also after clean"
    yield from (f"{done.moment.number}: {done.cleaned}" for done in late)
    yield from (f"WRONG {done.moment.number}: {done.wrong}" for done in found if done.wrong)


@click.command()
@click.option("--kills", default=20, show_default=True, help="how many, with those of the journal")
@click.option("--env", "asked", type=click.Choice([DOCKER, LOCAL, USER]), multiple=True,
              default=(DOCKER, LOCAL, USER), show_default=True)  # fmt: skip
@click.option("--jobs", default=2, show_default=True, help="runs at a time")
@click.option("--seed", default=1, show_default=True, help="of the moments")
@click.option("--phase", "phases", type=click.Choice(PHASES), multiple=True, default=PHASES,
              help="only moments of these; by default all")  # fmt: skip
@click.option("--victim", "victims", type=click.Choice(VICTIM_NAMES), multiple=True,
              default=VICTIM_NAMES, help="only kills of these; by default all")  # fmt: skip
@click.option("--journal", type=click.Path(dir_okay=False, path_type=Path), default=None,
              help="what is done is kept here, and not done again")  # fmt: skip
@click.option("--store", type=click.Path(file_okay=False, path_type=Path),
              default=Path("runs/kills"), show_default=True,
              help="runs go here, and stay where something went wrong")  # fmt: skip
def main(
    kills: int, asked: tuple[str, ...], jobs: int, seed: int, phases: tuple[str, ...],
    victims: tuple[str, ...], journal: Path | None, store: Path,
) -> None:  # fmt: skip
    """Kill, look, and print what was left."""
    here = worlds_here(asked)
    for name, why in here.items():
        if why:
            click.echo(f"not here: {name}: {why}", err=True)
    worlds = [name for name, why in here.items() if not why]
    if not worlds:
        raise click.UsageError("none of these environments can be had here")
    drawn = moments(seed, worlds, disks=node_disk.lacking() is None)
    fit = (m for m in drawn if m.phase in phases and m.victim in victims)
    wanted = list(itertools.islice(fit, kills))
    found = resumed(journal, Killed) if journal else []
    found = [done for done in found if done.moment.number in {m.number for m in wanted}]
    in_engine = DOCKER in worlds
    before = bridges_of_no_network() if in_engine else []
    click.echo(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for done in found:
        click.echo(row(done))
    missed = 0
    for each in _performed([m for m in wanted if m.number not in {d.moment.number for d in found}],
                           jobs, store.resolve()):  # fmt: skip
        if each is None:
            missed += 1
            continue
        found.append(each)
        click.echo(row(each))
        if journal:
            append(journal, each)
    after = bridges_of_no_network() if in_engine else []
    more = [bridge for bridge in after if bridge not in before]
    click.echo("\n".join([*summary(found, missed), *more]))
    sys.exit(1 if more or any(done.wrong for done in found) else 0)


def _performed(todo: Sequence[Moment], jobs: int, store: Path) -> Iterator[Killed | None]:
    """Kills as they end, some at a time. Threads: they wait for other processes."""
    known = {name: world_of(name) for name in dict.fromkeys(m.world for m in todo)}

    def perform(moment: Moment) -> Killed | None:
        folder = store / f"{os.getpid()}-{moment.number}"
        return kill(known[moment.world], moment, folder)

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(perform, moment) for moment in todo]):
            yield done.result()


if __name__ == "__main__":
    main()
