"""Directed schedules: for each mutant the smallest one known to show it.

They are package data, ``harness/schedule/directed/<mutant>.jsonl``, so that anybody can repeat one:

    maxq replay harness/schedule/directed/<mutant>.jsonl --mutant <mutant>

The two test modules that run them take every other mutant each, so that two workers share them.
"""

from pathlib import Path
from typing import NamedTuple

from maxq.checkers.core.claims import CLAIMS
from maxq.harness.experiments.simulate import simulated
from maxq.harness.run.replay import options_for
from maxq.harness.schedule.format import Schedule, read
from maxq.reference import mutants

FOLDER = Path(__file__).parents[2] / "maxq" / "harness" / "schedule" / "directed"


class Shown(NamedTuple):
    """What came of a schedule: the exit code, the claims that were broken, and what the mutant told
    of itself."""

    exit_code: int
    broken: frozenset[str]
    told: frozenset[str]


def schedule_of(mutant: str) -> Schedule:
    """The mutant's schedule."""
    return read(FOLDER / f"{mutant}.jsonl")


def shown(name: str, folder: Path, *, mutant: str) -> Shown:
    """Perform the schedule of the mutant `name`, with this mutant or with none."""
    script = schedule_of(name)
    told: list[str] = []
    with mutants.heard(lambda who, level: told.append(f"{who} {level}")):
        # Without a counterexample and a page, which take as long as the run.
        run = simulated(script, options_for(script, mutant=mutant), folder)
    broken = frozenset(a.claim for v in run.results.verdicts for a in v.anomalies)
    return Shown(run.results.exit_code, broken, frozenset(told))


def check(name: str, folder: Path) -> None:
    """The mutant breaks a claim that names it, by code that did something."""
    bad = shown(name, folder, mutant=name)
    assert bad.exit_code == 1
    assert bad.broken & {claim.id for claim in CLAIMS if name in claim.mutants}
    assert f"{name} diverged" in bad.told


def check_without(name: str, folder: Path) -> None:
    """Without the mutant its schedule gives a valid run."""
    good = shown(name, folder, mutant="")
    assert (good.exit_code, good.broken, good.told) == (0, frozenset(), frozenset())
