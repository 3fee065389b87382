"""Is the act that a finding is blamed on the one that it needs? For seeded bugs, by leaving out.

Run as ``python -m benchmarks.culprits``: for every mutant that breaks a claim of durability, of
logs or of epochs, its directed schedule and one drawn seed: the first of 20 that shows it, or,
where none does, the first by which the campaign over mutants had shown it (`data/mutants.jsonl`).
What the history blames is compared with a smallest set of acts that still shows the finding, found
without looking at the blame (`maxq.harness.experiments.explain`). Equal means the same acts: to
blame more than is needed is not equal. There may be several smallest sets; where the blame is
another than the one that was found, it is tried by itself, and counts as equal, marked so, if it is
enough and nothing of it can be left out. Prints a line a case and a table; exit code 1 if fewer
than nine in ten are equal.
"""

import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import click
import msgspec

from maxq.checkers.core.claims import CLAIMS
from maxq.harness.experiments.explain import explain
from maxq.harness.experiments.simulate import drawn, simulated
from maxq.harness.run.replay import options_for
from maxq.harness.schedule.format import Schedule, read
from maxq.harness.schedule.reductions import with_options
from maxq.reference import mutants

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "maxq" / "harness" / "schedule" / "directed"
JOURNAL = ROOT / "data" / "mutants.jsonl"
ABOUT = frozenset(
    ("S5", "S6", "S8", "S8b", "S8c", "S9", "S9b", "S10", "S10b", "S11", "S11b", "S12", "S16")
)
SEEDS_MAX = 20  # that are drawn until one shows the mutant
WANTED = 0.9


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One finding. `blamed` and `needed` are acts in words; `why`: why there is no comparison."""

    mutant: str
    of: str
    finding: str = ""
    blamed: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    equal: bool = False
    another: bool = False  # equal, but to another smallest set than the one found
    runs: int = 0
    seconds: float = 0.0
    why: str = ""
    story: str = ""


def judged_mutants() -> list[str]:
    """The mutants that break one of the claims, each once."""
    known = set(mutants.names())
    named = [m for claim in CLAIMS if claim.id in ABOUT for m in claim.mutants]
    return [m for m in dict.fromkeys(named) if m in known]


def schedules(mutant: str, first: int) -> Iterator[tuple[str, Iterator[Schedule]]]:
    """The directed schedule, and drawn ones; each by what it is called."""
    yield "directed", iter([read(FOLDER / f"{mutant}.jsonl")])
    seeds = chain(range(first, first + SEEDS_MAX), shown(mutant))
    yield "drawn", (drawn(seed) for seed in seeds)


def shown(mutant: str) -> Iterator[int]:
    """The seeds by which the campaign had shown a break of one of the claims by a mutant."""
    with JOURNAL.open("rb") as lines:
        for line in map(msgspec.json.decode, lines):
            found = line.get("told", {}).get("found", {}) if line.get("mutant") == mutant else {}
            if any(name.split("/")[0] in ABOUT for name in found):
                yield line["told"]["seed"]


def case(mutant: str, of: str, scripts: Iterator[Schedule], budget: int) -> Case:
    """Compare blame and need on the first schedule that shows something."""
    for script in scripts:
        chosen = with_options(script, mutant=mutant)
        options = options_for(chosen, "simulated")
        name = of if of == "directed" else f"seed {script.header.seed}"
        try:
            run = simulated(chosen, options)
        except Exception as error:  # a mutant may keep its cluster from coming up
            return Case(mutant=mutant, of=name, why=f"no run: {type(error).__name__}")
        findings = [h for h in run.results.findings if h.broken and not ABOUT.isdisjoint(h.claims)]
        if not findings:
            continue
        begun = time.monotonic()
        tried = partial(explain, run.history, options, findings[:1], jobs=1, budget=budget,
                        script=run.performed)  # fmt: skip
        [found] = tried(guess=False)
        runs, same, another = found.runs, set(found.blamed) == set(found.enough), False
        if not found.why and not same and found.blamed:
            [again] = tried(guess=True)
            runs += again.runs
            another = again.reduced and set(again.enough) == set(found.blamed)
        return Case(
            mutant=mutant,
            of=name,
            finding=found.finding,
            blamed=found.blamed,
            needed=found.enough,
            equal=not found.why and (same or another),
            another=another,
            runs=runs,
            seconds=round(time.monotonic() - begun, 1),
            why=found.why or ("" if found.reduced else "not reduced further"),
            story=findings[0].story,
        )
    return Case(mutant=mutant, of=of, why=f"not shown by {SEEDS_MAX} seeds, nor by the campaign")


def table(cases: list[Case]) -> Iterator[str]:
    """The cases as Markdown."""
    yield "| Mutant | Schedule | Finding | Blamed | Needed | Equal | Runs | Seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for c in cases:
        blamed, needed = (", ".join(names) or "none" for names in (c.blamed, c.needed))
        word = "yes" if c.equal and not c.another else "another" if c.another else c.why or "no"
        if not c.finding:
            blamed = needed = ""
        yield (
            f"| `{c.mutant}` | {c.of} | {c.finding} | {blamed} | {needed} | {word} | {c.runs} | "
            f"{c.seconds:g} |"
        )


@click.command()
@click.option("--mutant", multiple=True, help="only these")
@click.option("--first", default=2_000, show_default=True, help="the first seed that is drawn")
@click.option("--budget", default=25, show_default=True, help="repetitions of one case")
@click.option("--only", type=click.Choice(["directed", "drawn"]), help="one kind of schedules")
def main(mutant: tuple[str, ...], first: int, budget: int, only: str | None) -> None:
    """Compare, and print."""
    cases = []
    for name in mutant or judged_mutants():
        for of, scripts in schedules(name, first):
            if only not in (None, of):
                continue
            one = case(name, of, scripts, budget)
            cases.append(one)
            said = "another" if one.another else "equal" if one.equal else one.why or "OTHER"
            click.echo(
                f"{name}, {one.of}: {said}; blamed {one.blamed}, needed {one.needed}; "
                f"{one.runs} runs, {one.seconds} s"
            )
            if not one.equal and one.story:
                click.echo(f"    {one.story}")
    compared = [c for c in cases if c.finding]
    equal = sum(c.equal for c in compared)
    click.echo("\n".join(table(cases)))
    another = sum(c.another for c in compared)
    click.echo(f"{equal} of {len(compared)} equal, {another} of them to another smallest set")
    sys.exit(0 if equal >= WANTED * len(compared) else 1)


if __name__ == "__main__":
    main()
