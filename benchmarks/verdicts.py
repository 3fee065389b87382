"""No claim is kept while something was found of it: every seeded bug under every profile.

Run as ``python -m benchmarks.verdicts``. Each run is short: what counts is not whether a mutant is
caught but whether the verdict agrees with itself. Of each verdict is asked that no claim that is
kept, or had no occasion, has an anomaly: neither one that is reported, nor one that is counted.

Prints how often each profile came to which verdict, what became of claims in which something was
found, and what is not so, with the command that repeats it. Exit code: 1 if anything is not so, 2
if a run failed, else 0.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import get_args

import click
import msgspec

from benchmarks.recording import record, small
from maxq.checkers.core.api import Status
from maxq.checkers.judgement.runner import Results
from maxq.checkers.messages.durability import CLAIMS as OF_LOG
from maxq.harness.cluster.queries import SetupFailed
from maxq.harness.contracts.target import Profile
from maxq.harness.run.process import workers
from maxq.harness.schedule.options import PAIR_PROFILES, TOGETHER, Options
from maxq.reference import mutants

SECONDS = 10
PROGRESS = 100  # runs between two words on how far it has come
WORDS = {True: "valid", False: "INVALID", "unknown": "unknown"}
PROFILES: tuple[Profile, ...] = tuple(p for p in get_args(Profile) if p not in PAIR_PROFILES)
SPARED: tuple[Status, ...] = ("kept", "no occasion")
WORKLOADS = (
    TOGETHER,
    ("queue",),
    ("queue", "lock"),
    ("queue", "registration"),
    ("queue", "offsets"),
)
FAULTS = (
    ("kill", "partition", "change-address"),
    ("kill", "partition"),
    ("power", "pause"),
)


class Said(msgspec.Struct, frozen=True):
    """What was said of one run. `found` counts claims with anomalies by what became of them."""

    profile: str
    verdict: str
    found: dict[str, int]
    wrong: tuple[str, ...]
    repeat: str


def options_of(mutant: str, profile: Profile, seed: int) -> Options:
    """A run of a mutant. Workloads and faults go by the seed, so that a run is short and all have
    their turn."""
    return small(
        seed=seed,
        seconds=SECONDS,
        mutant=mutant,
        profile=profile,
        workload=WORKLOADS[seed % len(WORKLOADS)],
        nemesis=FAULTS[seed % len(FAULTS)],
    )


def every(seeds: Sequence[int]) -> list[Options]:
    """Every mutant under every profile with every seed; seeds first, so that a part is of all.
    Those of containers show nothing where each broker is alone."""
    names = [name for name in mutants.names() if mutants.about(name).family != mutants.CONTAINED]
    each = product(seeds, PROFILES, names)
    return [options_of(mutant, profile, seed) for seed, profile, mutant in each]


def contradictions(results: Results) -> Iterator[str]:
    """Where a verdict denies what was found."""
    for verdict in results.verdicts:
        spared = verdict.of(*SPARED)
        for each in verdict.claim_verdicts:
            if each.claim in spared and each.found:
                yield f"{each.claim} is {each.status}, and has {each.found}"
        for anomaly in verdict.anomalies:
            if anomaly.claim in spared:
                yield f"{anomaly.claim} is spared, and this is reported: {anomaly.story}"
        if verdict.checker == "durability":
            for name, claim in OF_LOG.items():
                if verdict.counts.get(name) and claim in spared:
                    yield f"{claim} is spared, and {verdict.counts[name]} {name} are counted"
    for claim in dict.fromkeys(a.claim for v in results.verdicts for a in v.anomalies):
        if claim not in results.claims:
            yield f"{claim} has an anomaly, and nothing is said of it"


def say(options: Options) -> Said:
    """Perform a run, and compare its verdict with what was found."""
    found = Counter[str]()
    try:
        results = record(options).judged()
        found.update(r.status for r in results.claims.values() if r.found)
        verdict, wrong = WORDS[results.valid], tuple(contradictions(results))
    except SetupFailed:  # a mutant with which no cluster comes up
        verdict, wrong = "no run", ()
    except Exception as error:  # one run's failure must not end the others
        verdict, wrong = "failed", (f"{type(error).__name__}: {error}",)
    return Said(options.profile, verdict, dict(found), wrong, options.command())


@click.command()
@click.option("--seeds", default=5, show_default=True, help="1 to this")
@click.option("--processes", default=2, show_default=True)
def main(seeds: int, processes: int) -> None:
    """Perform all runs and print what was said of them."""
    begun, runs = time.monotonic(), every(range(1, seeds + 1))
    verdicts, found = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    wrong = 0
    with workers.processes(processes) as pool:
        for number, said in enumerate(pool.map(say, runs), 1):
            if not number % PROGRESS:
                minutes = (time.monotonic() - begun) / 60
                click.echo(f"{number} of {len(runs)} after {minutes:.1f} min", err=True)
            verdicts[said.profile, said.verdict] += 1
            found.update({(said.profile, status): n for status, n in said.found.items()})
            wrong += len(said.wrong)
            for line in said.wrong:
                click.echo(f"{said.verdict}: {line}\n    repeat: {said.repeat}")
    _print(verdicts, ("valid", "INVALID", "unknown", "no run", "failed"), "runs")
    _print(found, ("broken", "not judged", "not promised", *SPARED), "claims with anomalies")
    click.echo(f"{len(runs)} runs, {wrong} wrong, {time.monotonic() - begun:.0f} s")
    failed = any(verdict == "failed" for _, verdict in verdicts)
    sys.exit(2 if failed else 1 if wrong else 0)


def _print(table: Counter[tuple[str, str]], columns: Sequence[str], what: str) -> None:
    click.echo(f"{what:22}" + "".join(f"{c:>14}" for c in columns))
    for profile in PROFILES:
        click.echo(f"{profile:22}" + "".join(f"{table[profile, c]:14}" for c in columns))


if __name__ == "__main__":
    main()
