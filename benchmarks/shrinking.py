"""How small the schedules of failing seeds become, and at what cost: mutants of all families.

Run as ``python -m benchmarks.shrinking``. For each mutant the first failing seed is looked for and
its schedule shrunk; the scripts stay in the store, for ``maxq replay --env docker``. Prints faults
(heals not counted) and operations (the ending not counted) before and after, simulations, seconds,
and how often the script fails under noise.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import click

from maxq.harness.experiments.mutants import catches
from maxq.harness.experiments.shrink import Shrunk, shrunk
from maxq.harness.experiments.simulate import drawn, run_seed
from maxq.harness.run.replay import NotRepeated, options_for
from maxq.harness.schedule.format import Schedule
from maxq.harness.schedule.reductions import with_options
from maxq.reference import mutants

# One or two of each family, each caught by a checker of histories, and within few seeds.
CHOSEN = (
    "new_id_each_start",
    "identity_bound_to_address",
    "elect_keeps_epoch",
    "raft_log_not_synced",
    "truncation_by_length",
    "ack_without_replicas",
    "alter_not_fenced",
    "set_from_stale_base",
    "lock_without_quorum",
    "address_under_two_ids",
)
SEEDS_MAX = 40


def failing(mutant: str, first: int) -> tuple[Schedule, str] | None:
    """The schedule of the first failing seed and what it shows first, of the mutant's own claim if
    it shows that."""
    about = mutants.about(mutant)
    for seed in range(first, first + SEEDS_MAX):
        result = run_seed(seed, mutant=mutant)
        if catches(result, about):
            signatures = sorted(result.found, key=lambda s: (s.partition("/")[0] != about.claim, s))
            return with_options(drawn(seed), mutant=mutant), signatures[0]
    return None


def row(mutant: str, found: Shrunk) -> str:
    """A line of the table."""
    (faults, ops), (faults_left, ops_left) = found.before, found.after
    return (
        f"| {mutant} | {found.script.header.name} | {faults} | {ops} | {faults_left} "
        f"| {ops_left} | {found.simulations} | {found.seconds:.0f} | {found.rate} |"
    )


@click.command()
@click.option("--store", type=click.Path(path_type=Path), default=Path("runs/shrunk"))
@click.option("--jobs", default=2, show_default=True)
@click.option("--first", default=0, show_default=True, help="the first seed")
@click.option("--mutant", "chosen", multiple=True, default=CHOSEN)
def main(store: Path, jobs: int, first: int, chosen: Sequence[str]) -> None:
    """Shrink a failing seed of each, and print what came of it."""
    print("| mutant | signature | faults | operations | faults left | operations left "
          "| simulations | seconds | under noise |")  # fmt: skip
    print("|---|---|---:|---:|---:|---:|---:|---:|---|")
    done: list[Shrunk] = []
    for mutant in chosen:
        case = failing(mutant, first)
        if case is None:
            print(f"| {mutant} | no seed of {SEEDS_MAX} fails | | | | | | | |", flush=True)
            continue
        script, signature = case
        options_for(script)  # or the schedule is none
        folder = store / mutant
        shutil.rmtree(folder, ignore_errors=True)
        try:
            found = shrunk(script, folder, signature, jobs=jobs)
        except NotRepeated as error:
            print(f"| {mutant} | {error} | | | | | | | |", flush=True)
            continue
        done.append(found)
        print(row(mutant, found), flush=True)
    if done:
        print(f"\nmedians of {len(done)}: {median(s.after[0] for s in done)} faults, "
              f"{median(s.after[1] for s in done)} operations, "
              f"{median(s.seconds for s in done):.0f} s")  # fmt: skip
    sys.exit(0 if done else 1)


if __name__ == "__main__":
    main()
