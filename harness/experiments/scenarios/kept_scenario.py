"""Scenarios of what a cluster keeps: one run of a schedule that gives its claims their coverage.

A run that is valid may be so because nothing happened. Such a schedule names the claims it is
about, and how often what they are about must have happened at least. It is *kept* when nothing is
broken, each of its claims was looked at and kept, the counts are reached, and clients had no gap
that is longer than it says.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from maxq.checkers.availability.answers import LENGTH_NS_MIN
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import Keeps, Schedule, ScheduleError, read
from maxq.histories.aliases import current

FOLDER = Path(__file__).parents[2] / "schedule" / "kept"


class KeptScenario(msgspec.Struct, frozen=True):
    """A schedule and what it shows that a cluster keeps."""

    name: str
    script: Schedule
    keeps: Keeps


def names() -> list[str]:
    """The scenarios of what is kept that come with Max-Q."""
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def kept_scenario_of(name: str) -> KeptScenario | None:
    """A scenario by its name, or a schedule's file that says what it shows; None: it is none of
    what is kept.

    Raises:
        ScheduleError: it names a claim that there is not.
    """
    path = FOLDER / f"{current(name)}.jsonl"
    if not path.exists():
        path = Path(name)
        if not path.is_file():
            return None
    script = read(path)
    keeps = script.header.keeps
    if keeps is None:
        return None
    if unknown := [claim for claim in keeps.claims if claim not in BY_ID]:
        raise ScheduleError(f"{path}: no claim {unknown[0]!r}")
    return KeptScenario(path.stem, script, keeps)


def run_kept(
    scenario: KeptScenario, folder: Path, *, environment: str, base_image: str = ""
) -> Judged:
    """Run it once, in a folder of the store.

    Raises:
        SetupFailed, EnvironmentLost: there was no run.
    """
    options = options_for(scenario.script, environment)
    context = RunContext(base_image=base_image, script=scenario.script)
    return run_test(options, folder, quiet=False, context=context)


def misses(keeps: Keeps, results: Results) -> Iterator[str]:
    """What is lacking of it, a sentence each."""
    if results.valid is False:
        yield f"broken: {', '.join(results.of('broken'))}"
    for claim in keeps.claims:
        status = results.claims[claim].status if claim in results.claims else "not looked at"
        if status not in ("kept", "broken"):
            yield f"{claim} ({BY_ID[claim].promise}): {status}"
    for name, least in keeps.counts.items():
        found = results.counts.get(name, 0)
        if found < least:
            yield f"{name}: {found}, at least {least} were to be seen"
    for name, bound in keeps.gaps.items():
        longest = longest_gap(name, results)
        if longest > bound:
            yield f"{name}: {longest:.1f} s without success, at most {bound:g} s are allowed"


def longest_gap(name: str, results: Results) -> float:
    """The longest time (s) in which no operation of a kind (``poll``, ``send b1``) succeeded; 0
    where none was as long as `maxq.checkers.availability.answers.LENGTH_NS_MIN`."""
    f, _, of_set = name.partition(" ")
    found = [s.length_ns for s in results.stretches if s.f == f and (not of_set or s.set == of_set)]
    return max(found, default=0) / 1e9


def gaps(keeps: Keeps, results: Results) -> Iterator[str]:
    """The longest gap of each kind of client beside its bound, a line each."""
    least = LENGTH_NS_MIN / 1e9
    for name, bound in keeps.gaps.items():
        longest = longest_gap(name, results)
        words = f"{longest:.1f} s" if longest else f"under {least:g} s"
        yield f"{name:20} longest time without success {words:>10}, bound {bound:g} s"
