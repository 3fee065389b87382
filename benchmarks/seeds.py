"""Many seeds of a small cluster in simulation: does any break a claim, are its replicas equal?

Run as ``python -m benchmarks.seeds --count 200``. Each seed is a run of its own; seeds and profiles
alternate. Prints a table of verdicts, and for every seed that is not as it should be what is wrong
and the command that repeats it. Exit code: 1 if a claim is broken or replicas differ, 2 if a run
failed or could not be judged, else 0.
"""

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from harness.cli.param_types import Duration
from harness.experiments import worker_pool
from harness.replicas import differences
from harness.run.fault_selection import fault_names
from harness.run.stored_run import run_test
from harness.schedule.options import Options

SETUP = {"workload": ("queue",), "broker_sets": 1, "replicas": 3, "controllers": 3}
# Enough that most losses of power find messages on their way: half of these are sends.
RATE, CONCURRENCY = 300.0, 12


class Told(msgspec.Struct, frozen=True):
    """What came of one seed."""

    profile: str
    seed: int
    verdict: str  # valid, INVALID, unknown, failed
    why: tuple[str, ...]
    repeat: str


def run_seed(options: Options) -> Told:
    """Run one seed and look at its replicas; keeps nothing of the run."""
    folder = Path(tempfile.mkdtemp(prefix="maxq-seed-"))
    why: list[str] = []
    try:
        judged = run_test(options, folder, quiet=True)
        valid = judged.results.valid
        for verdict in judged.results.verdicts:
            if verdict.valid is not True:
                why.append(f"{verdict.checker}: {verdict.reason}")
            why += [f"{a.claim} {a.name}: {a.story}" for a in verdict.anomalies[:3]]
        unequal = differences(judged.stored.path / "nodes")
        why += unequal
        word = "valid" if valid is True else "INVALID" if valid is False else "unknown"
        verdict_word = "INVALID" if unequal else word
    except Exception as error:  # one seed's failure must not end the campaign
        verdict_word, why = "failed", [f"{type(error).__name__}: {error}"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Told(
        profile=options.profile,
        seed=options.seed,
        verdict=verdict_word,
        why=tuple(why),
        repeat=options.command(),
    )


def campaign(
    count: int,
    *,
    first: int = 1,
    faults: Sequence[str] = ("power", "kill"),
    profiles: Sequence[str] = ("P-SAFE", "P-ALL"),
    time_limit_ns: int = 20_000_000_000,
    rate: float = RATE,
    concurrency: int = CONCURRENCY,
    processes: int = 2,
) -> Iterator[Told]:
    """Run `count` seeds from `first` on, each under one of the profiles in turn."""
    runs = [
        msgspec.convert(
            {
                **SETUP,
                "environment": "simulated",
                "seed": first + at,
                "nemesis": tuple(faults),
                "profile": profiles[at % len(profiles)],
                "time_limit_ns": time_limit_ns,
                "rate": rate,
                "concurrency": concurrency,
            },
            Options,
        )
        for at in range(count)
    ]
    if processes == 1:
        yield from map(run_seed, runs)
        return
    with worker_pool.processes(processes) as pool:
        yield from pool.map(run_seed, runs)


@click.command()
@click.option("--count", default=200, show_default=True)
@click.option("--first", default=1, show_default=True, help="the first seed")
@click.option("--nemesis", "faults", type=click.Choice(fault_names()), multiple=True,
              default=("power", "kill"), show_default=True)  # fmt: skip
@click.option("--profile", "profiles", multiple=True, default=("P-SAFE", "P-ALL"),
              show_default=True)  # fmt: skip
@click.option("--time-limit", type=Duration(), default="20s", show_default=True)
@click.option("--rate", default=RATE, show_default=True, help="operations a second")
@click.option("--concurrency", default=CONCURRENCY, show_default=True)
@click.option("--processes", default=2, show_default=True)
def main(count: int, first: int, faults: tuple[str, ...], profiles: tuple[str, ...],
         time_limit: int, rate: float, concurrency: int, processes: int) -> None:  # fmt: skip
    """Run the seeds and print what came of them."""
    begun = time.monotonic()
    table: Counter[tuple[str, str]] = Counter()
    runs = campaign(count, first=first, faults=faults, profiles=profiles,
                    time_limit_ns=time_limit, rate=rate, concurrency=concurrency,
                    processes=processes)  # fmt: skip
    for told in runs:
        table[told.profile, told.verdict] += 1
        if told.verdict != "valid":
            click.echo(f"seed {told.seed} {told.profile}: {told.verdict}")
            for line in told.why:
                click.echo(f"    {line}")
            click.echo(f"    repeat: {told.repeat}")
    verdicts = ("valid", "INVALID", "unknown", "failed")
    click.echo(f"{'':10}" + "".join(f"{v:>9}" for v in verdicts))
    for profile in profiles:
        click.echo(f"{profile:10}" + "".join(f"{table[profile, v]:9}" for v in verdicts))
    click.echo(f"{count} seeds in {time.monotonic() - begun:.0f} s")
    bad = {verdict for _, verdict in table}
    sys.exit(1 if "INVALID" in bad else 2 if bad - {"valid"} else 0)


if __name__ == "__main__":
    main()
