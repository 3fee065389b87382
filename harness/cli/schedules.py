"""Commands on schedules: ``maxq replay``, ``maxq simulate``, ``maxq explore``, ``maxq shrink``."""

import json
import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from maxq.checkers.judgement import runner
from maxq.harness.cli.given.asked import layout_for
from maxq.harness.cli.given.options import LAYOUT_OPTION
from maxq.harness.cli.given.param_types import (
    ACCEPT_PARTIAL_OPTION,
    EXPLAIN_OPTION,
    PLUGIN_OPTION,
    RELEASE_OPTION,
    VERBOSE_OPTION,
    Alias,
    Duration,
    EnvironmentName,
    Name,
    Names,
    Percent,
    Target,
    usage,
)
from maxq.harness.cli.given.sections import Sectioned
from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.cli.show import show, word
from maxq.harness.cli.stored_runs import explained
from maxq.harness.contracts.terminal import NAME, echo, pasted
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.explore import Exploration
from maxq.harness.experiments.overview.occasions import Occasions
from maxq.harness.experiments.shrink import (
    BEST,
    BUDGET,
    SCRIPT,
    STORY,
    Shrinker,
    shrunk,
    signature_of,
    story_of,
)
from maxq.harness.experiments.shrink_real import BUDGET as REAL_BUDGET
from maxq.harness.experiments.shrink_real import PERFORMED, Journaled, Shrinking, report_of
from maxq.harness.experiments.simulate import Campaign, SeedResult, Summary, seeds_of
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.replay import LATE_S, Rate, late, options_for, repeat, script_of, signatures
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.run_plan import workloads
from maxq.harness.run.stored_run import Judged, judge_stored
from maxq.harness.sampling.factors import coverage
from maxq.harness.schedule.format import Schedule, encode
from maxq.harness.schedule.options import MODES, PROFILES
from maxq.histories.aliases import current
from maxq.histories.store import write_whole
from maxq.nemeses.catalogue import fault_names
from maxq.reference import mutants

STORE = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="where run folders go",
)
MODE = click.option(
    "--mode",
    type=Name(list(MODES)),
    default=MODES[0],
    show_default=True,
    help="who says which broker is master: controllers, or, in a pair, its settings",
)
REPLAY_FIRST = (
    *("environment", "as_performed", "times", "target", "profile", "mutant", "explain"),
    *("verbose", "as_json", "store"),
)
REPLAY = """
\b
Examples:
  maxq replay runs/latest
  maxq replay runs/latest --times 10
  maxq replay runs/latest --target rocketmq:5.5.0 --env local
"""


@click.command(cls=Sectioned, epilog=REPLAY, first=REPLAY_FIRST)
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--env",
    "environment",
    type=EnvironmentName(),
    default=None,
    help="where to repeat it; by default where it was, or as the schedule says",
)
@click.option(
    "--as-performed",
    is_flag=True,
    help="repeat each fault at its recorded time and on its recorded nodes",
)
@click.option("--target", type=Target(), default=None, help="what to test, such as rocketmq:5.5.0")
@RELEASE_OPTION
@click.option("--profile", type=Alias(PROFILES), default=None, help="another profile")
@click.option(
    "--times",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    help="how often to repeat it",
)
@click.option(
    "--mutant", type=Name(mutants.names, "NAME"), default=None, help="with this seeded bug"
)
@click.option("--base-image", default="", help="a Docker image to build on")
@PLUGIN_OPTION
@STORE
@ACCEPT_PARTIAL_OPTION
@EXPLAIN_OPTION
@VERBOSE_OPTION
@click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON")
def replay(run: Path, environment: str | None, times: int, store: Path, **given: Any) -> int:
    """Repeat a run, by its folder, or a schedule, by its file.

    Faults come as they were written: at their times or after events, on the node that plays the
    part by then. A simulated run repeats exactly. On real machines, and with --times, the output
    says how many repetitions show which anomaly.
    """
    script, before = script_of(run, performed=given["as_performed"])
    more: dict[str, Any] = {}
    for name in ("mutant", "target", "profile"):
        if given[name] is not None:
            more[name] = given[name]
    if given["releases"]:
        more["releases"] = dict(given["releases"])
    where = environment or (before.environment if before is not None else "")
    options = options_for(script, where, **more)
    context = RunContext(base_image=given["base_image"])
    found: Counter[str] = Counter()
    verdicts = []
    runs = repeat(script, options, store, times=times, quiet=given["as_json"], context=context)
    for number, judged in enumerate(runs, start=1):
        found.update(signatures(judged))
        verdicts.append(judged.results.valid)
        if times == 1:
            judged = explained(judged) if given["explain"] else judged
            show(judged, as_json=given["as_json"], verbose=given["verbose"])
            if given["as_performed"]:
                for line in lateness_of(script, judged):
                    echo(line, err=True)
            return context.stop.exit_code(judged.exit_code, accept_partial=given["accept_partial"])
        seen = ", ".join(signatures(judged)) or "nothing"
        echo(f"{number}: {seen}  {judged.stored.path}")
    runs_done = len(verdicts)
    for signature, hits in sorted(found.items()):
        echo(f"{signature}: {Rate(hits, runs_done)}")
    if not found:
        echo(f"no anomaly in {runs_done} runs: {Rate(0, runs_done)}")
    if context.stop.number:
        raise KeyboardInterrupt
    return runner.exit_code(verdicts, crashed=False)


def lateness_of(script: Schedule, judged: Judged) -> Iterator[str]:
    """How well the recorded times were met."""
    missed = late(script, judged)
    yield (
        f"acts:    {len(script.acts)} as performed, {len(missed)} of them more than {LATE_S} s late"
    )
    for act, by in missed:
        yield f"  {act.id} ({act.f}): " + ("not done" if by == math.inf else f"{by:.2f} s late")


@click.command()
@click.option("--seeds", required=True, help="which seeds, both ends included, such as 0..999")
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="worker processes"
)
@click.option(
    "--mutant", type=Name(mutants.names, "NAME"), default=None, help="with this seeded bug"
)
@MODE
@click.option(
    "--length",
    type=Duration(),
    default=None,
    help="how long each run's main part lasts; by default drawn",
)
@click.option(
    "--beside",
    type=Names(fault_names),
    default=(),
    metavar="FAULT,...",
    help="faults in addition to those that are drawn, such as damage",
)
@click.option(
    "--also",
    type=Names(workloads),
    default=(),
    metavar="WORKLOAD,...",
    help="workloads in addition to those that are drawn, such as one of a plug-in",
)
@LAYOUT_OPTION
@click.option(
    "--verify", type=Percent(), default=0, help="run this share twice, such as 1%, and compare"
)
@click.option("--fresh", is_flag=True, help="discard what was done before, and start over")
@click.option("--json", "as_json", is_flag=True, help="print the summary as JSON")
@PLUGIN_OPTION
@STORE
def simulate(seeds: str, store: Path, as_json: bool, **given: Any) -> int:
    """Run many seeds in the simulator, each with a topology, a load and faults of its own.

    The same command again resumes. Runs that break a promise are kept, for `maxq replay` and
    `maxq shrink`.
    """
    wanted = wanted_seeds(seeds)
    length_ns = given["length"] or 0
    pairs = given["mode"] == MODES[1]
    layout: str = given["layout"] or ""
    with usage():
        layout_for(layout, pair=pairs)
    if "containers" in given["also"] and not layout:
        raise click.UsageError("--also containers needs --layout")
    kind = f"{given['mutant'] or 'reference'}{'-pairs' * pairs}{f'-{layout}' * bool(layout)}"
    campaign = Campaign(
        store.resolve() / "simulated" / kind,
        jobs=given["jobs"],
        mutant=given["mutant"] or "",
        length_ms=length_ns // 1_000_000,
        beside=tuple(given["beside"]),
        also=tuple(given["also"]),
        verify=given["verify"],
        pairs=pairs,
        layout=layout,
    )
    if given["fresh"]:
        (campaign.folder / JOURNAL).unlink(missing_ok=True)
    summary, steps = Summary(), Steps("seeds")

    def line() -> str:
        steps.before = campaign.resumed
        return steps.line(summary.done, len(wanted), *summary.progress(campaign.resumed))

    def summed() -> None:
        if as_json:
            echo(json.dumps(summary.to_json(), indent=1))
            return
        for text in summary.lines():
            echo(text)

    with Ticker(line, summed) as ticker:
        for result in campaign.run(wanted):
            summary.add(result)
            if result.found or result.error or result.oracle:
                ticker.say(f"seed {result.seed}: {line_of(result)}  {result.run}", err=as_json)
    summed()
    if summary.groups:
        return runner.EXIT_INVALID
    return runner.EXIT_UNKNOWN if summary.verdicts["unknown"] else runner.EXIT_VALID


@click.command()
@click.option("--seeds", required=True, help="which seeds, both ends included, such as 0..9")
@click.option(
    "--env", "environment", type=EnvironmentName(), required=True,
    help="where the nodes run",
)  # fmt: skip
@click.option(
    "--length",
    type=Duration(),
    default=None,
    help="how long each run's main part lasts; by default drawn",
)
@click.option("--target", type=Target(), default=None, help="what to test, such as rocketmq:5.5.0")
@RELEASE_OPTION
@click.option("--base-image", default="", help="a Docker image to build on")
@click.option("--fresh", is_flag=True, help="discard what was done before, and start over")
@PLUGIN_OPTION
@STORE
def explore(
    seeds: str,
    environment: str,
    length: int | None,
    target: str | None,
    releases: tuple[tuple[str, str], ...],
    base_image: str,
    fresh: bool,
    store: Path,
) -> int:
    """Run random schedules, as `maxq simulate` does, one after the other on real machines.

    Each seed takes a row of the covering array in turn. Every run is stored with its report. At the
    end it says how often each claim was put to the test, and how many pairs of values were met. The
    same command again resumes.
    """
    exploration = Exploration(
        store.resolve(),
        wanted_seeds(seeds),
        environment=environment,
        length_ms=(length or 0) // 1_000_000,
        target=target or "",
        releases=dict(releases),
        base_image=base_image,
    )
    if fresh:
        exploration.forget()
    done = exploration.done()
    for one in done:
        echo(f"seed {one.seed}: {word(one.valid)}  {one.line()}  (done before)")
    steps = Steps("seeds", len(done))

    def line() -> str:
        done = exploration.done()
        counts = Counter(word(one.valid) for one in done)
        found = ", ".join(sorted({name for one in done for name in one.found}))
        said = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
        return steps.line(len(done), len(exploration.seeds), said, found and f"found: {found}")

    def summed() -> None:
        occasions = Occasions()
        for one in exploration.done():
            occasions.add(one.claims)
        for text in occasions.lines():
            echo(text)
        met = coverage(one.row for one in exploration.done())
        echo(f"pairs of values met: {met.met} of {met.of}")

    with Ticker(line, summed) as ticker:
        exploration.run(
            lambda one: ticker.say(f"seed {one.seed}: {word(one.valid)}  {one.line()}", err=False)
        )
    summed()
    return runner.exit_code([one.valid for one in exploration.done()], crashed=False)


def wanted_seeds(text: str) -> range:
    """Seeds as asked for, or a usage error."""
    try:
        return seeds_of(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def line_of(result: SeedResult) -> str:
    """What a seed showed, in a line."""
    seen = {**result.found, **{f"oracle/{name}": n for name, n in result.oracle.items()}}
    found = ", ".join(f"{name} {n}" for name, n in seen.items())
    return f"{found} {result.error}".strip()


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--signature", default="", help="what the run must still show, such as S6/lost-tail")
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=2,
    show_default=True,
    help="simulations at a time",
)
@click.option("--budget", type=click.IntRange(1, 100_000), default=None,
              help=f"how many simulations ({BUDGET}) or real runs ({REAL_BUDGET})")  # fmt: skip
@click.option(
    "--env",
    "environment",
    type=EnvironmentName(),
    default=None,
    help="where to try it; by default where the run was, or simulated",
)
@PLUGIN_OPTION
@STORE
def shrink(
    run: Path, signature: str, jobs: int, budget: int | None, environment: str | None, store: Path
) -> int:
    """Make the schedule of a failing run as small as can be.

    It leaves faults out, and in the simulator operations too, and runs what is left. On real
    machines the output says how often what is left fails. The same command again resumes. The
    schedule is in the run's folder, for `maxq replay`.
    """
    script, before = script_of(run)
    where = environment or (before.environment if before is not None else "simulated")
    folder = (run if run.is_dir() else run.parent) / "shrunk"
    if where != "simulated":
        wanted = current(signature) or stored_signature(run)
        return shrink_on_machines(script, where, wanted, folder, store, budget or REAL_BUDGET)
    at_work: list[Shrinker] = []
    steps = Steps("simulations", at_most=True)

    def kept() -> None:
        if at_work:
            echo(far())
        if at_work and (folder / BEST).exists():
            echo(f"best:    {pasted(f'maxq replay {shlex.quote(str(folder / BEST))}')}")

    def far() -> str:
        if not at_work:
            return "simulated once, to see what the schedule shows"
        [shrinker] = at_work
        return steps.line(min(shrinker.simulations, shrinker.budget), shrinker.budget,
                          shrinker.line())  # fmt: skip

    with Ticker(far, kept):
        wanted = current(signature) or signature_of(script)
        found = shrunk(script, folder, wanted, jobs=jobs, budget=budget or BUDGET,
                       watch=at_work.append)  # fmt: skip
    lines = list(story_of(found, folder / SCRIPT))
    (folder / STORY).write_text("\n".join(lines) + "\n")
    for line in lines:
        echo(line)
    return 0


def stored_signature(run: Path) -> str:
    """The first anomaly of a stored run, or a usage error."""
    found = signatures(judge_stored(run, allow_truncated=True)) if run.is_dir() else []
    if not found:
        raise click.UsageError("name what the schedule must show: --signature S6/lost-tail")
    return found[0]


def shrink_on_machines(
    script: Schedule, where: str, signature: str, folder: Path, store: Path, budget: int
) -> int:
    """Shrink by real runs; the exit code."""
    context = RunContext(stop=Stop(at_once=True))

    def perform(smaller: Schedule) -> Sequence[str]:
        runs = repeat(smaller, options_for(smaller, where), store, times=1, quiet=True,
                      context=context)  # fmt: skip
        (judged,) = runs
        return signatures(judged)

    folder.mkdir(parents=True, exist_ok=True)

    def kept() -> None:
        if shrinking.best is not None:
            write_whole(folder / BEST, encode(shrinking.best))
            echo(far())
            best = shlex.quote(str(folder / BEST))
            echo(f"best:    {pasted(f'maxq replay {best} --env {where}')}")

    performed = Journaled(folder / PERFORMED, where, perform)
    shrinking = Shrinking(signature, performed, budget=budget, say=lambda text: ticker.say(text))
    steps = Steps("runs", at_most=True)

    def far() -> str:
        return steps.line(shrinking.runs, budget, shrinking.line())

    with Ticker(far, kept) as ticker:
        found = shrinking.shrink(script)
    write_whole(folder / SCRIPT, encode(found.script))
    again = shlex.join([NAME, "replay", str(folder / SCRIPT), "--env", where])
    lines = [*report_of(found, signature), pasted(again)]
    (folder / STORY).write_text("\n".join(lines) + "\n")
    for line in lines:
        echo(line)
    return 0
