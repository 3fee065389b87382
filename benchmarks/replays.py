"""Does a run, replayed from its folder, do the same again?

Run as ``python -m benchmarks.replays``: runs of ``maxq test`` with drawn options, each replayed
from its folder as it was written and as it was performed. As written, in the simulator both
histories must be equal to the byte, and on real machines (``--env local``) the same acts be done to
the same roles. As performed, the same acts must be done to the same nodes, each begun within a
quarter of a second of its time; what was later is listed. Exit code 1: a replay is not as it should
be.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from maxq.harness.cli.given.asked import asked_from
from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.run.execute import capabilities_of
from maxq.harness.run.replay import LATE_S, late, options_for, repeat, script_of
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import Schedule
from maxq.harness.schedule.from_history import as_performed
from maxq.harness.schedule.options import PROFILES, TOGETHER, Options
from maxq.histories.aliases import THEN
from maxq.nemeses.catalogue import NO_FAULT, fault_names, needs_of

SECOND_NS = 1_000_000_000
WORKLOADS = ("queue", "lock", "registration", "offsets")


def options_of(number: int, environment: str) -> Options:
    """Options as somebody might ask for them."""
    draws = Keyed(f"replays/{number}")
    can = capabilities_of(environment)
    faults = [f for f in fault_names() if f != NO_FAULT and needs_of([f]) <= can]
    faults = [f for f in faults if environment == "simulated" or f != "power"]
    count = draws.between(1, 3, "faults")
    chosen = draws.shuffled(faults, "which")[:count]
    if draws.chance(30, "pair") and len(chosen) > 1:
        chosen = [THEN.join(chosen[:2]), *chosen[2:]]
    workload = TOGETHER if draws.chance(40, "all") else (draws.choice(WORKLOADS, "workload"),)
    given: dict[str, Any] = {
        "environment": environment,
        "seed": draws.below(1 << 20, "seed"),
        "workload": workload,
        "nemesis": tuple(chosen),
        "profile": draws.choice(sorted(set(PROFILES.values())), "profile"),
        "time_limit": draws.between(10, 40, "length") * SECOND_NS,
        "lull": draws.choice((0, 0, 4), "lull") * SECOND_NS,
        "rate": float(draws.choice((5, 50, 200), "rate")),
        "concurrency": draws.choice((3, 10), "concurrency"),
        "broker_sets": draws.choice((1, 1, 2), "sets"),
        "replicas": draws.choice((2, 3), "replicas"),
        "controllers": draws.choice((1, 3), "controllers"),
        "mutant": "", "target": "reference",
    }  # fmt: skip
    return asked_from(given)


def again(judged: Judged, root: Path, *, performed: bool) -> tuple[Schedule, Judged]:
    """A replay of a run, and the schedule that it followed."""
    script, before = script_of(judged.stored.path, performed=performed)
    options = options_for(script, before.environment if before is not None else "")
    [replayed] = repeat(script, options, root, times=1, quiet=True, context=RunContext())
    return script, replayed


def roles(judged: Judged, script: Schedule) -> list[tuple[str, str, list[str]]]:
    """The acts of a run that were done, each with the roles of the nodes that it struck."""
    done = as_performed(script, judged.stored.history).acts
    return [(a.id, a.f, sorted(a.done.nodes.values())) for a in done if a.done is not None]


def nodes(judged: Judged, script: Schedule) -> list[tuple[str, str, list[str]]]:
    """The same with their names."""
    done = as_performed(script, judged.stored.history).acts
    return [(a.id, a.f, sorted(a.done.nodes)) for a in done if a.done is not None]


def wrong(judged: Judged, root: Path) -> Iterator[str]:
    """What of the replays of a run is not as it should be."""
    script, written = again(judged, root, performed=False)
    if judged.options.environment == "simulated":
        journals = [(j.stored.path / "history.jsonl").read_bytes() for j in (judged, written)]
        if journals[0] != journals[1]:
            yield "another history"
    elif roles(judged, script) != roles(written, script):
        yield f"as written: {roles(judged, script)} became {roles(written, script)}"
    script, same = again(judged, root, performed=True)
    wanted = [(a.id, a.f, sorted(a.done.nodes)) for a in script.acts if a.done is not None]
    if wanted != nodes(same, script):
        yield f"as performed: {wanted} became {nodes(same, script)}"
    for act, by in late(script, same):
        click.echo(f"    {act.id} ({act.f}) began {by:.2f} s late, {LATE_S} allowed")


@click.command()
@click.option("--runs", default=60, show_default=True)
@click.option("--first", default=0, show_default=True, help="the first number that is drawn")
@click.option("--env", "environment", type=click.Choice(["simulated", "local", "docker"]),
              default="simulated", show_default=True)  # fmt: skip
def main(runs: int, first: int, environment: str) -> None:
    """Run, replay, compare."""
    failed = 0
    for number in range(first, first + runs):
        options = options_of(number, environment)
        with tempfile.TemporaryDirectory(prefix="maxq-replays-") as folder:
            judged = run_test(options, Path(folder), quiet=True)
            found = list(wrong(judged, Path(folder)))
        failed += bool(found)
        ops = len(judged.stored.history.ops)
        said = "; ".join(found) or "the same again"
        click.echo(f"{number}: {said}  ({ops} operations, {','.join(options.nemesis)})")
    click.echo(f"{runs - failed} of {runs} runs replayed as they should be")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
